"""ELMo under the names, arguments and results of AllenNLP, so that an old program changes its imports only."""

from hf_elmo.allennlp.batches import batch_to_ids
from hf_elmo.allennlp.bilm import ElmoBiLm
from hf_elmo.allennlp.elmo import Elmo
from hf_elmo.allennlp.embedder import ElmoEmbedder
from hf_elmo.allennlp.scalar_mix import ScalarMix
from hf_elmo.allennlp.sentence_boundaries import remove_sentence_boundaries

__all__ = [
    "Elmo",
    "ElmoBiLm",
    "ElmoEmbedder",
    "ScalarMix",
    "batch_to_ids",
    "remove_sentence_boundaries",
]
