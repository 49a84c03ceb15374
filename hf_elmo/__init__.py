"""ELMo for Hugging Face transformers.

Importing the package registers its classes with AutoConfig, AutoModel, AutoModelForPreTraining and AutoTokenizer.
"""

from transformers import AutoConfig, AutoModel, AutoModelForPreTraining, AutoTokenizer

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.modeling_elmo import (
    ElmoForPreTraining,
    ElmoForPreTrainingOutput,
    ElmoModel,
    ElmoModelOutput,
    ElmoPreTrainedModel,
)
from hf_elmo.tokenization_elmo import ElmoTokenizer
from hf_elmo.version import __version__

__all__ = [
    "ElmoConfig",
    "ElmoForPreTraining",
    "ElmoForPreTrainingOutput",
    "ElmoModel",
    "ElmoModelOutput",
    "ElmoPreTrainedModel",
    "ElmoTokenizer",
    "__version__",
]

AutoConfig.register("elmo", ElmoConfig, exist_ok=True)
AutoModel.register(ElmoConfig, ElmoModel, exist_ok=True)
AutoModelForPreTraining.register(ElmoConfig, ElmoForPreTraining, exist_ok=True)
AutoTokenizer.register(ElmoConfig, tokenizer_class=ElmoTokenizer, exist_ok=True)
