"""Small data in the usual formats, and the arguments of runs on them, with the model in the package."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

NAMES = ["Mary", "Anna", "Peter", "Paul"]
PLACES = ["Oslo", "Rome", "Paris"]
OTHERS = ["sees", "the", "old", "dog", "and", "hears", "it"]
SMALL = "--use_cpu true --num_train_epochs 3 --learning_rate 0.02 --per_device_train_batch_size 4 --elmo_dropout 0.1"


def conll(sentences: int, *, seed: int = 0) -> str:
    """IOB1: names are I-PER, places I-LOC, each a span by itself; with a column of parts of speech."""
    rng = np.random.default_rng(seed)
    lines = ["-DOCSTART- -X- O", ""]
    for _ in range(sentences):
        words = [str(rng.choice(group)) for _ in range(rng.integers(1, 4)) for group in ([*NAMES, *PLACES], OTHERS)]
        for word in words:
            kind = "I-PER" if word in NAMES else "I-LOC" if word in PLACES else "O"
            lines.append(f"{word} {'NNP' if kind != 'O' else 'X'} {kind}")
        lines.append("")
    return "\n".join(lines)


def texts(count: int, *, seed: int = 0) -> str:
    """JSON lines: class `name` where one is there, else `none`."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        words = list(rng.choice(OTHERS, size=rng.integers(2, 6)))
        named = bool(rng.random() < 0.5)
        words += [str(rng.choice(NAMES))] * named
        rows.append({"text": " ".join(words), "second": "the dog .", "label": "name" if named else "none"})
    return "\n".join(map(json.dumps, rows)) + "\n"


def squad(count: int, *, seed: int = 0) -> str:
    """SQuAD's JSON: who is there?"""
    rng = np.random.default_rng(seed)
    paragraphs = []
    for number in range(count):
        before, after = (" ".join(rng.choice(OTHERS, size=rng.integers(1, 5))) for _ in range(2))
        name = str(rng.choice(NAMES))
        answers = [{"text": name, "answer_start": len(before) + 1}]
        question = {"id": f"{seed}-{number}", "question": "Who is there?", "answers": answers}
        paragraphs.append({"context": f"{before} {name} {after}.", "qas": [question]})
    return json.dumps({"version": "1.1", "data": [{"title": "Names", "paragraphs": paragraphs}]})


def flags(folder: Path, out: str, *more: str, files: Sequence[str], small: str = SMALL) -> list[str]:
    """The command's arguments; `files` are those of training, validation and test, as far as they are there."""
    names = ("--train_file", "--validation_file", "--test_file")
    given: list[Any] = [part for name, file in zip(names, files, strict=False) for part in (name, folder / file)]
    return [str(part) for part in (*given, "--output_dir", folder / out, *small.split(), *more)]
