"""The benchmark of the training step runs, and both of its ways learn the same."""

import json

import pytest

from tests.benchmarks.training_step import main


def test_tiny(tmp_path, capsys):
    words = ["the", "dog", "barks", "at", "a", "tree", "and", "its", "bark", "is", "rough"]
    text = "\n\n".join(" ".join(words[(3 * n + place * place) % 11] for place in range(12)) + "." for n in range(300))
    (tmp_path / "text.txt").write_text(text)
    flags = [
        "--size",
        "tiny",
        "--batch",
        "4",
        "--tokens",
        "480",
        "--repeats",
        "2",
        "--negatives",
        "6",
        "--clock",
        "cpu",
    ]
    out = tmp_path / "figures.json"
    assert main(["--text", str(tmp_path / "text.txt"), *flags, "--json", str(out)]) == 0
    figures = json.loads(out.read_text())
    assert figures["updates"] == 2 * 6
    assert figures["tokens_trained_on"] == 12 * 80
    assert figures["negatives"] == 6
    assert len(figures["seconds_per_update"]["plain"]) == 11
    assert figures["words_per_second"].keys() == {"ours", "plain", "limit"}
    for figure in ("first_loss", "heldout_perplexity"):
        assert figures[figure]["ours"] == pytest.approx(figures[figure]["plain"], rel=1e-3)
    table = capsys.readouterr().out
    assert f"ours / plain: {figures['ratio_ours_to_plain']:.2f} x" in table
    assert "plain per-step loop" in table
