"""One batch of docs between the biLM's forward and its backward pass."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from spacy.tokens import Doc
from torch import Tensor, nn

from hf_elmo import ElmoModel
from hf_elmo.character_ids import BOS_WORD, EOS_WORD, words_to_character_ids
from spacy_elmo.doc_sentences import FloatArray, sentence_rows
from spacy_elmo.listener import ElmoListener


class Sentence(NamedTuple):
    """One input of the biLM.

    Attributes:
        doc: index of its doc.
        rows: its tokens' indices.
        words: its words.
    """

    doc: int
    rows: list[int]
    words: list[str]


class TrainingBatch:
    """Docs that a biLM in training has read, until the gradients of their layers are there.

    Args:
        model: the biLM.
        docs: the docs of one update.
        max_words_per_batch: bound on the positions the biLM reads at once, padding included.
        expected: the listeners that may send gradients.
        complete: called when all of them have.
        record: called with the squared norm of each doc's gradient.
    """

    def __init__(
        self,
        *,
        model: ElmoModel,
        docs: Sequence[Doc],
        max_words_per_batch: int,
        expected: Sequence[ElmoListener],
        complete: Callable[[], None],
        record: Callable[[float], None],
    ) -> None:
        self.layers = [
            np.zeros((len(doc), model.config.num_hidden_layers + 1, model.config.hidden_size), dtype=np.float32)
            for doc in docs
        ]
        self._gradients = [np.zeros_like(layers) for layers in self.layers]
        self._read = [(group, _read(model, group)) for group in _groups(docs, max_words_per_batch)]
        for group, computed in self._read:
            values = computed.detach().float().cpu().numpy()  # (B, T, L + 1, 2P)
            for sentence, vectors in zip(group, values, strict=True):
                self.layers[sentence.doc][sentence.rows] = vectors[1 : len(sentence.rows) + 1]
        self._waiting_for = {id(listener) for listener in expected}
        self._open: list[int] = []
        self._complete = complete
        self._record = record
        self.has_gradient = False

    def open(self, listener: ElmoListener) -> None:
        """A listener has read the layers, and may send gradients."""
        self._open.append(id(listener))

    def add(self, index: int, gradient: FloatArray) -> None:
        """Add the gradient of one doc's layers.

        Shape:
            gradient (tokens, layers, width)
        """
        if not self._read:
            raise RuntimeError(
                "ElmoListener: got gradients of a batch on which the biLM has been trained already; expected every "
                "listener to backpropagate once for each update of the component 'elmo', before the next."
            )
        self._gradients[index] += gradient
        self._record(float((gradient**2).sum()))
        self.has_gradient = True

    def close(self, listener: ElmoListener) -> None:
        """A listener has sent what it has."""
        if id(listener) in self._open:
            self._open.remove(id(listener))
        self._waiting_for.discard(id(listener))
        if not self._open and not self._waiting_for:
            self._complete()

    def backward(self) -> None:
        """Add the parameters' gradients to what they have; the batch is done then."""
        outputs, gradients = [], []
        for group, computed in self._read if self.has_gradient else []:
            if computed.requires_grad:
                outputs.append(computed)
                gradients.append(self._gradient(group, computed))
        self._read = []
        if outputs:
            torch.autograd.backward(outputs, gradients)

    def _gradient(self, group: Sequence[Sentence], computed: Tensor) -> Tensor:
        """(B, T, L + 1, 2P), zero at boundaries and padding."""
        gradient = np.zeros(computed.shape, dtype=np.float32)
        for row, sentence in enumerate(group):
            gradient[row, 1 : len(sentence.rows) + 1] = self._gradients[sentence.doc][sentence.rows]
        return torch.from_numpy(gradient).to(computed)


def _groups(docs: Sequence[Doc], max_words: int) -> Iterator[list[Sentence]]:
    """The sentences of all docs, those of similar length together, as many as fit."""
    sentences = [
        Sentence(number, rows, [doc[i].text for i in rows])
        for number, doc in enumerate(docs)
        for rows in sentence_rows(doc)
    ]
    group: list[Sentence] = []
    for sentence in sorted(sentences, key=lambda one: len(one.rows), reverse=True):
        if group and (len(group[0].rows) + 2) * (len(group) + 1) > max_words:
            yield group
            group = []
        group.append(sentence)
    if group:
        yield group


def _read(model: ElmoModel, group: Sequence[Sentence]) -> Tensor:
    """Every layer of every word, with what backpropagation needs: (B, T, L + 1, 2P)."""
    rows = [
        torch.from_numpy(
            words_to_character_ids(
                [BOS_WORD, *sentence.words, EOS_WORD], max_characters_per_word=model.config.max_characters_per_word
            )
        )
        for sentence in group
    ]  # each (n + 2, C)
    character_ids = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.device)  # (B, T, C)
    with torch.enable_grad():
        output = model(character_ids, output_hidden_states=True, return_dict=True)
        return torch.stack(output.hidden_states, dim=2)
