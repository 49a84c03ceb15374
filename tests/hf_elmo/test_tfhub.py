"""TensorFlow Hub's two signatures."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hf_elmo import ElmoModel, tfhub
from hf_elmo.convert.conversion import convert, load_original
from tests.hf_elmo.allennlp.original import Original, assert_close, write_original
from tests.oracles import numpy_elmo

TEXTS = ["the cat is on the mat", "dogs are  in the fog ", "", "naïve 東京\tx"]
WORDS = [["the", "cat", "is", "on", "the", "mat"], ["dogs", "are", "in", "the", "fog"], [], ["naïve", "東京\tx"]]
SHARES = [0.5, -1.0, 2.0]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return write_original(tmp_path_factory.mktemp("tfhub"))


@pytest.fixture(scope="module")
def module(original: Original) -> tfhub.Module:
    module = tfhub.Module(load_original(*original.files)[0])
    with torch.no_grad():
        module.elmo.scalar_mix.weights.copy_(torch.tensor(SHARES))
        module.elmo.scalar_mix.gamma.fill_(1.5)
    return module


def _check(
    outputs: dict[str, torch.Tensor], original: Original, width: int, words: Sequence[list[str]] = WORDS
) -> None:
    P = 16
    assert set(outputs) == {"word_emb", "lstm_outputs1", "lstm_outputs2", "elmo", "default", "sequence_len"}
    for row, sentence in enumerate(words):
        (layers,), _ = original.layers([sentence])
        padded = np.pad(layers, ((0, 0), (0, width - len(sentence)), (0, 0)))  # (3, T, 2P)
        assert_close(outputs["word_emb"][row], padded[0, :, :P])
        assert_close(outputs["lstm_outputs1"][row], padded[1])
        assert_close(outputs["lstm_outputs2"][row], padded[2])
        elmo = numpy_elmo.scalar_mix(padded, SHARES, 1.5)
        assert_close(outputs["elmo"][row], elmo)
        assert_close(outputs["default"][row], elmo.sum(axis=0) / max(len(sentence), 1))
    assert outputs["sequence_len"].tolist() == list(map(len, words))


def test_raw_sentences_are_split_at_spaces(module: tfhub.Module, original: Original) -> None:
    for outputs in (
        module(TEXTS, signature="default", as_dict=True),
        module(np.array(TEXTS), as_dict=True),
        module({"text": TEXTS}, as_dict=True),
        module.signatures["default"](TEXTS),
        module.signatures["default"](text=TEXTS),
    ):
        _check(outputs, original, width=6)


def test_words_and_their_number(module: tfhub.Module, original: Original) -> None:
    tokens = [words + ["padding"] * (8 - len(words)) for words in WORDS]
    lengths = list(map(len, WORDS))
    for outputs in (
        module({"tokens": tokens, "sequence_len": lengths}, signature="tokens", as_dict=True),
        module(inputs={"tokens": tokens, "sequence_len": torch.tensor(lengths)}, signature="tokens", as_dict=True),
        module.signatures["tokens"](tokens=np.array(tokens), sequence_len=np.array(lengths)),
    ):
        _check(outputs, original, width=8)


def test_without_as_dict_the_mean_is_returned(module: tfhub.Module) -> None:
    assert torch.equal(module(TEXTS), module(TEXTS, as_dict=True)["default"])
    assert module(TEXTS).shape == (4, 32)


def test_only_empty_sentences(module: tfhub.Module) -> None:
    outputs = module(["", "  "], as_dict=True)
    assert outputs["elmo"].shape == (2, 0, 32)
    assert not outputs["default"].any()


@pytest.mark.parametrize("trainable", [True, False])
def test_four_numbers_are_trained_or_none(original: Original, trainable: bool) -> None:
    module = tfhub.Module(load_original(*original.files)[0], trainable=trainable)
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == (4 if trainable else 0)
    outputs = module(TEXTS, as_dict=True)
    assert outputs["elmo"].requires_grad == trainable
    if trainable:
        outputs["default"].square().sum().backward()
        assert all(parameter.grad.abs().sum() > 0 for parameter in trained)
    else:
        assert isinstance(outputs["default"].numpy(), np.ndarray)


def test_folder_shipped_model_and_copies(original: Original, tmp_path: Path, module: tfhub.Module) -> None:
    convert(*original.files, tmp_path / "my-elmo")
    loaded = tfhub.load(tmp_path / "my-elmo")
    assert not loaded.training
    assert_close(loaded(TEXTS[:1], as_dict=True)["elmo"][0], original.mix(WORDS[0]))
    assert tfhub.load()(TEXTS[:1]).shape == (1, 256)
    assert torch.equal(copy.deepcopy(module)(TEXTS), module(TEXTS))
    other = tfhub.Module(tmp_path / "my-elmo")
    other.load_state_dict(module.state_dict())
    assert torch.equal(other(TEXTS), module(TEXTS))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("a sentence",), TypeError, "text: got the string"),
        (([["a", "word"]],), TypeError, "sentence 0 is list"),
        (([],), ValueError, "got no sentence"),
        ((["a \ud800"],), ValueError, "lone surrogate"),
        ((TEXTS, "words"), ValueError, "signature: got 'words'"),
        ((TEXTS, "tokens"), ValueError, "inputs: got list; expected a dictionary with 'tokens' and 'sequence_len'"),
        (({"tokens": [["a"]]}, "tokens"), ValueError, r"got \['tokens'\]"),
        (({"tokens": [["a"]], "sequence_len": [2]}, "tokens"), ValueError, "got 2 for sentence 0; expected 0 to 1"),
        (({"tokens": [["a"]], "sequence_len": [1, 1]}, "tokens"), ValueError, "got 2 lengths; expected 1"),
        (({"tokens": ["a b"], "sequence_len": [1]}, "tokens"), TypeError, "sentence 0 is the string"),
    ],
)
def test_wrong_inputs_are_refused(
    module: tfhub.Module, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        module(*arguments)


def test_sources_that_cannot_be_read_are_refused(original: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="TensorFlow's modules cannot be read"):
        tfhub.load("https://tfhub.dev/google/elmo/3")
    with pytest.raises(OSError, match="no ELMo model"):
        tfhub.load("no-such-folder")
    config = load_original(*original.files)[0].config
    with pytest.raises(ValueError, match="without a scalar mix"):
        tfhub.Module(ElmoModel(config, add_scalar_mix=False))
