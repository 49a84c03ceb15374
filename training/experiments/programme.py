"""All rows, the most telling first."""

from experiments import adaptation, classification, cost, mixing, ner, pos, question_answering, senses
from experiments.budget import Budget
from experiments.rows import Row


def all_rows(budget: Budget) -> list[Row]:
    """Every experiment, in the order in which they are run."""
    entities = ner.rows(budget)
    headline = [row for row in entities if row.name.startswith("ner-conll03-10-spacy-")]
    tenth = [row for row in entities if row.settings["percent"] == 10 and row not in headline]
    rest = [row for row in entities if row.settings["percent"] != 10]
    return [
        *headline,
        *pos.probe_rows(budget),
        *senses.rows(budget),
        *tenth,
        *pos.tagger_rows(budget),
        *adaptation.rows(budget),
        *classification.rows(budget),
        *mixing.rows(budget),
        *rest,
        *question_answering.rows(budget),
        *cost.rows(budget),
    ]


def choose(rows: list[Row], patterns: list[str]) -> list[Row]:
    """The rows that match one of the patterns; all for none.

    Raises:
        ValueError: a pattern that no row matches.
    """
    for pattern in patterns:
        if not any(row.matches([pattern]) for row in rows):
            groups = ", ".join(dict.fromkeys(row.group for row in rows))
            raise ValueError(
                f"--only: got {pattern!r}, which is no row; expected names as --list prints them, their beginnings "
                f"({groups}), or globs such as 'ner-*-10-*'."
            )
    return [row for row in rows if not patterns or row.matches(patterns)]
