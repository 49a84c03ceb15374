"""The model that a run trains: a head on a loaded biLM, or the same head on static word vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hf_elmo.configuration_elmo import ElmoConfig
from hf_elmo.model_source import load_model, located
from hf_elmo.pretraining.word_vector_start import read_word_vectors
from hf_elmo.task_model import ElmoTaskModel
from hf_elmo.tasks.baseline import BaselineConfig, WordEmbeddings
from hf_elmo.tasks.options import TaskOptions, changed_config
from hf_elmo.tokenization_elmo import ElmoTokenizer

# Of random vectors: about that of trained ones.
_STANDARD_DEVIATION = 0.4


class HeadClasses(NamedTuple):
    """The same head on ELMo and on static word vectors."""

    with_elmo: Callable[[ElmoConfig], ElmoTaskModel]
    without_elmo: Callable[[ElmoConfig], ElmoTaskModel]


def load_tokenizer(options: TaskOptions) -> ElmoTokenizer:
    """The biLM's tokenizer, which a baseline uses too, so that both read the same words.

    Raises:
        OSError: there is none.
    """
    return ElmoTokenizer.from_pretrained(located(options.model_name_or_path), revision=options.revision or "main")


def head_on_elmo(
    classes: HeadClasses, options: TaskOptions, changes: dict[str, Any], labels: Sequence[str] | None
) -> ElmoTaskModel:
    """A new head on the biLM.

    Args:
        classes: the head.
        options: name the biLM.
        changes: fields of its configuration that are the head's.
        labels: names of the classes, if there are any.

    Raises:
        OSError, ValueError: as `load_model`; a field out of its range; layers of the mix that the biLM's own, if it is
            trained, does not have.
    """
    bilm = load_model(options.model_name_or_path, revision=options.revision)
    model = classes.with_elmo(changed_config(bilm.config, changes, labels))
    if bilm.scalar_mix is not None:
        bilm.scalar_mix.read_only(model.config.mix_layers, num_layers=bilm.config.num_hidden_layers + 1)
    model.elmo.load_state_dict(bilm.state_dict())
    return model


def head_without_elmo(
    classes: HeadClasses,
    options: TaskOptions,
    changes: dict[str, Any],
    labels: Sequence[str] | None,
    *,
    training_words: Counter[str],
    other_words: set[str],
    max_characters_per_word: int,
) -> ElmoTaskModel:
    """A new head on static word vectors, which are trained with it.

    A word of a file of vectors starts with its own; another has one if the training data have it twice or more.  All
    others share one vector, which those seen once train.

    Args:
        classes, options, changes, labels: as in `head_on_elmo`.
        training_words: how often each occurs.
        other_words: of the validation and test data, for which a file may have vectors.
        max_characters_per_word: of the tokenizer.

    Raises:
        OSError, ValueError: as `read_word_vectors`; a field out of its range.
    """
    words = sorted(training_words.keys() | other_words)
    size, known = options.word_vector_size, {}
    if options.word_vectors is not None:
        rows, vectors = read_word_vectors(options.word_vectors, words)
        size = vectors.shape[1]
        known = {words[row]: vector * _STANDARD_DEVIATION for row, vector in zip(rows.tolist(), vectors, strict=True)}
    kept = [word for word in words if word in known or training_words[word] > 1]
    distinct = {word.encode()[: max_characters_per_word - 2]: word for word in kept}  # as far as they are spelled
    kept = list(distinct.values()) or words[:1]
    config = BaselineConfig(num_words=len(kept), word_vector_size=size, max_characters_per_word=max_characters_per_word)
    model = classes.without_elmo(changed_config(config, {**changes, "freeze_bilm": False}, labels))
    assert isinstance(model.elmo, WordEmbeddings)
    model.elmo.set_words(kept, torch.stack([_start(known.get(word), size) for word in kept]))
    return model


def _start(vector: Tensor | None, size: int) -> Tensor:
    return torch.randn(size) * _STANDARD_DEVIATION if vector is None else vector
