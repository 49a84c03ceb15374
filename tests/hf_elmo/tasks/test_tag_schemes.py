"""Tags of spans: every scheme is read alike, and the counting is that of seqeval and by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hf_elmo.tasks.tag_metrics import span_metrics, span_report, tag_accuracy
from hf_elmo.tasks.tag_schemes import Span, are_spans, spans, with_scheme

seqeval = pytest.importorskip("seqeval.metrics.sequence_labeling", reason='needs ".[train]"')


@st.composite
def sentences_with_spans(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """A length and spans that do not overlap; some touch."""
    length = draw(st.integers(1, 12))
    found, place = [], 0
    while place < length:
        place += draw(st.integers(0, 3))
        end = place + draw(st.integers(1, 4))
        if end <= length:
            found.append(Span(draw(st.sampled_from(["PER", "LOC", "B-X"])), place, end))
        place = end
    return length, found


def iob1(length: int, found: list[Span]) -> list[str]:
    """B- only where a span follows one of its own type at once."""
    tags = ["O"] * length
    for kind, start, end in found:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        if any(before.end == start and before.type == kind for before in found):
            tags[start] = f"B-{kind}"
    return tags


def bilou(length: int, found: list[Span]) -> list[str]:
    tags = ["O"] * length
    for kind, start, end in found:
        tags[start:end] = [f"I-{kind}"] * (end - start)
        tags[start], tags[end - 1] = f"B-{kind}", f"L-{kind}"
        if end - start == 1:
            tags[start] = f"U-{kind}"
    return tags


@given(sentences_with_spans())
def test_every_scheme_says_the_same(sentence: tuple[int, list[Span]]) -> None:
    length, found = sentence
    for tags in (iob1(length, found), bilou(length, found)):
        assert spans(tags) == found
        for scheme in ("bio", "bioes"):
            written = with_scheme(tags, scheme)  # type: ignore[arg-type]
            assert spans(written) == found
            assert seqeval.get_entities(written) == [(kind, start, end - 1) for kind, start, end in found]


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B"]), min_size=1, max_size=12))
def test_spans_of_any_tags_are_those_of_seqeval(tags: list[str]) -> None:
    assert [(kind, start, end - 1) for kind, start, end in spans(tags)] == seqeval.get_entities(tags)


def test_by_hand() -> None:
    tags = ["I-PER", "I-PER", "B-PER", "I-LOC", "O", "I-LOC"]
    assert with_scheme(tags, "bio") == ["B-PER", "I-PER", "B-PER", "B-LOC", "O", "B-LOC"]
    assert with_scheme(tags, "bioes") == ["B-PER", "E-PER", "S-PER", "S-LOC", "O", "S-LOC"]
    with pytest.raises(ValueError, match="scheme: got 'iob'; expected one of bio, bioes"):
        with_scheme(tags, "iob")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [(["O", "I-PER"], True), (["NN", "VB"], False), (["O"], False), ([], False), (["B-"], False), (["O", "NN"], False)],
)
def test_what_is_a_tag_of_spans(tags: list[str], expected: bool) -> None:
    assert are_spans(tags) is expected


def test_metrics_by_hand() -> None:
    """Three spans are there, two were found, one of them right."""
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O"]]
    predicted = [["B-PER", "I-PER", "O", "O"], ["B-LOC", "O"]]
    metrics = span_metrics(gold, predicted)
    assert metrics == pytest.approx({"precision": 1 / 2, "recall": 1 / 3, "f1": 0.4, "accuracy": 4 / 6})
    assert "PER     1.0000    1.0000" in span_report(gold, predicted)
    assert tag_accuracy([["A", "B"], ["A"]], [["A", "A"], ["A"]]) == {"accuracy": pytest.approx(2 / 3)}
