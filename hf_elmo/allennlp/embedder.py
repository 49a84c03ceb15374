"""AllenNLP's `ElmoEmbedder`: tokenised sentences → all layers as NumPy arrays."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from os import PathLike

import numpy as np
import torch
from torch import Tensor

from hf_elmo.allennlp.batches import sentences_to_ids
from hf_elmo.allennlp.bilm import ElmoBiLm
from hf_elmo.allennlp.sentence_boundaries import remove_sentence_boundaries

DEFAULT_BATCH_SIZE = 64


class ElmoEmbedder:
    """Computes the layers of sentences with a frozen biLM.

    Args:
        options_file, weight_file: as in [`Elmo`]; without both, the model that ships with the package.
        cuda_device: number of the GPU, or -1 for the CPU.
        stateful: carry the LSTM state from batch to batch as the reference does.

    Attributes:
        elmo_bilm: the biLM.
        cuda_device: as given.

    Raises:
        ImportError, OSError, ValueError: as [`Elmo`]; a GPU that torch does not see.
    """

    def __init__(
        self,
        options_file: str | PathLike[str] | None = None,
        weight_file: str | PathLike[str] | None = None,
        cuda_device: int = -1,
        *,
        stateful: bool = False,
    ) -> None:
        if cuda_device >= torch.cuda.device_count():
            raise ValueError(
                f"cuda_device: got {cuda_device}; expected -1 for the CPU, or the number of a GPU that torch sees, of "
                f"which there are {torch.cuda.device_count()}."
            )
        self.elmo_bilm = ElmoBiLm(options_file, weight_file, stateful=stateful)
        self.cuda_device = cuda_device
        if cuda_device >= 0:
            self.elmo_bilm = self.elmo_bilm.cuda(cuda_device)

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """All layers of a batch as tensors, and their mask.

        Shape:
            B sentences of at most T words → (B, L + 1, T, 2P), (B, T) bool

        Raises:
            TypeError: a sentence given as one string, or a word that is no string.
            ValueError: a word with a lone surrogate.
        """
        model = self.elmo_bilm._elmo_lstm.model
        character_ids = sentences_to_ids(
            batch, max_characters_per_word=model.config.max_characters_per_word, surrogates="error"
        )
        output = self.elmo_bilm(character_ids.to(model.device))
        stripped = [remove_sentence_boundaries(layer, output["mask"]) for layer in output["activations"]]
        return torch.stack([layer for layer, _ in stripped], dim=1), stripped[0][1]

    def embed_sentence(self, sentence: Sequence[str]) -> np.ndarray:
        """All layers of one sentence of n words: (L + 1, n, 2P) float32. Errors as `batch_to_embeddings`."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """All layers of every sentence of a batch: (L + 1, n, 2P) float32 each. Errors as `batch_to_embeddings`.

        A batch without a word is not run, so that a carried state stays what it is, as in the reference.
        """
        if not any(len(sentence) for sentence in batch):
            empty = np.zeros((self.elmo_bilm.num_layers, 0, self.elmo_bilm.get_output_dim()), np.float32)
            return [empty.copy() for _ in batch]
        layers, _ = self.batch_to_embeddings(batch)
        arrays = layers.float().cpu().numpy()  # (B, L + 1, T, 2P)
        return [row[:, : len(sentence)].copy() for row, sentence in zip(arrays, batch, strict=True)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = DEFAULT_BATCH_SIZE
    ) -> Iterator[np.ndarray]:
        """All layers of sentence after sentence, in their order, computed `batch_size` at a time as they are asked for.

        Errors as `batch_to_embeddings`.

        Raises:
            ValueError: a batch size below 1.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size: got {batch_size!r}; expected at least 1.")
        return self._embed_sentences(iter(sentences), batch_size)

    def _embed_sentences(self, sentences: Iterator[Sequence[str]], batch_size: int) -> Iterator[np.ndarray]:
        while batch := list(islice(sentences, batch_size)):
            yield from self.embed_batch(batch)
