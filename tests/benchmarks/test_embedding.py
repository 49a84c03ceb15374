"""The table of speeds is complete, and its limits are what they are said to be."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from rich.console import Console

from hf_elmo import ElmoConfig
from tests.benchmarks import embedding, encoders, limits, memory, models
from tests.benchmarks.sentences import DEFAULT_TEXT, read_text
from tests.benchmarks.ways import NAMES, ON_GPU


def test_every_row_of_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "figures.json"
    embedding.main(["--sizes", "tiny", "--words", "150", "--repeats", "2", "--rows", *NAMES, "--json", str(out)])
    (tiny,) = json.loads(out.read_text())["models"]
    reached = set(tiny["words_per_second"]) | set(tiny["notes"])
    assert reached == {*NAMES, "limit: sgemm", "limit: memory"}
    assert all(speed > 0 for speed in tiny["words_per_second"].values())
    assert tiny["notes"]["second-pass"].startswith("character CNN 0.0% (0 calls)")
    assert float(tiny["notes"]["stream"].rsplit(maxsplit=1)[1]) < 1e-5
    assert torch.cuda.is_available() or {tiny["notes"][row] for row in ON_GPU} == {"no CUDA GPU here"}
    assert "words per second" in capsys.readouterr().out


@pytest.mark.slow
def test_costs(capsys: pytest.CaptureFixture[str]) -> None:
    text = read_text(DEFAULT_TEXT, 100)
    costs = embedding.measure_costs(["tiny"], text, repeats=1, threads=1)
    assert costs["import_seconds"].keys() >= {"torch", "hf_elmo"}
    assert costs["models"]["tiny"]["peak_bytes"] >= costs["models"]["tiny"]["peak_bytes_one_sentence"] > 2**26
    console = Console(width=120)
    console.print(embedding.import_table(costs["import_seconds"]))
    console.print(embedding.cost_table(costs["models"], "100 words"))
    printed = capsys.readouterr().out
    assert "seconds to import" in printed
    assert "first use" in printed


def test_the_two_transformers_have_their_published_sizes() -> None:
    sizes = {name: sum(map(torch.numel, encoders.build(name).parameters())) for name in encoders.NAMES}
    assert sizes == {"BERT-base": 108_891_648, "DistilBERT": 66_362_880}  # without BERT's pooler


def test_pieces_are_those_of_words() -> None:
    text, elsewhere = read_text(DEFAULT_TEXT, 300), read_text(DEFAULT_TEXT, 2000, skip_words=300)
    tokenizer = encoders.train_tokenizer(elsewhere.paragraphs)
    assert tokenizer.encode(["The", "dog"], is_pretokenized=True).tokens == ["[CLS]", "the", "dog", "[SEP]"]
    assert 1 <= encoders.pieces_per_word(tokenizer, text.sentences) < 2


def test_parts_of_a_text_follow_each_other() -> None:
    whole, first = read_text(DEFAULT_TEXT, 600), read_text(DEFAULT_TEXT, 200)
    rest = read_text(DEFAULT_TEXT, 600 - first.num_words, skip_words=first.num_words)
    assert first.paragraphs + rest.paragraphs == whole.paragraphs
    assert first.sentences + rest.sentences == whole.sentences
    assert 200 <= first.num_words < 600 <= whole.num_words


def test_limits_of_the_original_size() -> None:
    """By hand: 4 LSTMs of 512 -> 16,384 gates for input and hidden each, and 4,096 -> 512."""
    config, sentences = ElmoConfig(**models.SIZES["original"]), [["word"] * 8]
    recurrent, inputs = 4 * 4 * (512 * 16_384 + 4096 * 512), 4 * 4 * 512 * 16_384
    assert limits.bytes_per_word(config, sentences) * 8 == 10 * recurrent + inputs
    products = 2 * 4 * 10 * (1024 * 16_384 + 4096 * 512)
    distinct = 3 * 2 * (2 * 2 * 2048 * 2048 + 2048 * 512)
    windows = np.array([7, 4, 4])[:, None]  # "word" and the boundaries, with their marks and one of padding
    filters = np.array(config.character_filters)
    convolutions = int((2 * windows * filters.prod(axis=1) * 16).sum())
    assert limits.products_per_word(config, sentences) * 8 == products + distinct + convolutions


def test_limits_are_measured() -> None:
    times = iter(range(100))
    assert limits.sgemm(lambda: next(times)) == 2 * 2048**3
    assert limits.read_bandwidth(lambda: next(times)) == 2**28


@pytest.mark.parametrize("command", [embedding, memory])
def test_a_text_that_is_not_there_is_refused(command: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.parser().parse_args(["--text", "nowhere.txt"])
    assert "argument --text: got nowhere.txt, which is no file; expected UTF-8 text" in capsys.readouterr().err
