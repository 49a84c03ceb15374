import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from hf_elmo.perplexity import Perplexity
from hf_elmo.pretraining.adaptation_report import AdaptationReport
from hf_elmo.pretraining.perplexity_report import TextPerplexity

CORPUS = SimpleNamespace(split_report=lambda split: {"tokens": 1234, "oov_rate": 0.05}, vocab_size=99)
BEFORE, START, AFTER = (Perplexity(x, x, x, 7) for x in (200.0, 160.0, 120.0))


def report(**changes) -> AdaptationReport:
    fields = {
        "model": "novels",
        "head": "kept",
        "keeps_vocabulary": True,
        "corpus": CORPUS,
        "num_streams": 2,
        "before": {"court": BEFORE},
        "before_unknown": {"court": 0.25},
        "start": {"court": BEFORE},
        "after": {"court": AFTER},
        **changes,
    }
    return AdaptationReport(**fields)


def shown(of: AdaptationReport) -> str:
    console = Console(width=200, file=io.StringIO())
    of.show(console)
    return " ".join(console.file.getvalue().split())


def test_a_vocabulary_that_is_kept():
    text = shown(report())
    assert "│ court │ 1,234 │ 5.0 % │ 200.00 │ 120.00 │ -40.0 % │" in text
    assert "Before and after predict the same words" in text
    assert "| court | 1,234 | 5.0 % | 200.00 | 120.00 | -40.0 % |" in report().section()


def test_a_new_vocabulary_is_compared_with_its_own_start():
    of = report(keeps_vocabulary=False, start={"court": START})
    text = shown(of)
    assert "│ court │ 1,234 │ 25.0 % │ 200.00 │ 5.0 % │ 160.00 │ 120.00 │ -25.0 % │" in text
    assert "Before is novels over its own vocabulary, and cannot be compared" in text
    assert not of.json()["before_is_comparable"]
    assert r"before\*" in of.section()


def test_a_new_head_has_no_before():
    of = report(keeps_vocabulary=False, before={}, before_unknown={}, start={"court": START})
    text = shown(of)
    assert "│ court │ 1,234 │ 5.0 % │ 160.00 │ 120.00 │ -25.0 % │" in text
    assert "came without a softmax" in text
    assert of.json()["before"] == {}
    # Also where the words are those of a vocabulary that came without a softmax.
    assert not report(before={}, before_unknown={}).is_comparable


def test_without_held_out_text():
    of = report(before={}, before_unknown={}, start={}, after={})
    assert shown(of) == ""
    assert of.section() == "## Adapted from novels\n\nThe softmax is kept."


@pytest.mark.parametrize("keeps_vocabulary", [True, False])
def test_markdown_takes_no_word_for_html(keeps_vocabulary):
    states = [TextPerplexity("court", 50, 5, 0.1, {"zero": BEFORE, "warm": AFTER})]
    section = report(keeps_vocabulary=keeps_vocabulary, by_state=states).section()
    assert "| court | 50 | warm | 120.00 |" in section
    for word in ("<UNK>", "</S>", "<S>"):
        assert section.count(word) == section.count(f"`{word}`") > 0


def test_json_has_the_states():
    states = [TextPerplexity("court", 50, 5, 0.1, {"zero": BEFORE, "warm": AFTER})]
    texts = report(by_state=states).json()["initial_states"]["texts"]
    assert texts["court"]["states"]["warm"]["perplexity"] == 120.0
    assert texts["court"]["words"] == 50
