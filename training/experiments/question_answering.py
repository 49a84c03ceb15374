"""Answers to questions as spans of a paragraph, with attention flow, without and with ELMo (Table 1)."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.budget import Budget, first
from experiments.classification import NO_DROPOUT
from experiments.feature_heads import FeaturesForQuestionAnswering, feature_config, mix_settings
from experiments.head_training import Example, predict, train_head
from experiments.readers.squad import Question, read_squad
from experiments.readers.static_vectors import StaticVectors
from experiments.resources import Resources
from experiments.rows import Measurement, Row, Settings
from experiments.sentence_features import SentenceFeatures
from hf_elmo.english_splitting import english_splitting

GROUP = "qa"
VECTORS = "vectors/glove.6B.50d.top100k.txt.gz"
_FILES = ("tasks/squad_devsplit/train.json", "tasks/squad_devsplit/test.json")
WORDS = 3_000_000
# Words of a context that are read in training; in prediction all are.
_MOST_CONTEXT = 200
_LONGEST_ANSWER = 17


class Split(NamedTuple):
    """A question in words, its context in words, and where these stand in its text."""

    question: list[str]
    context: list[str]
    offsets: list[tuple[int, int]]
    start: int
    end: int


def rows(budget: Budget) -> list[Row]:
    """One seed: these rows take longest.  Without the dropout of ELMo too, as in `classification`."""
    return [
        Row(
            "-".join([GROUP, "squad", elmo, *([told["variant"]] if told else []), "seed0"]),
            GROUP,
            {
                "task": "squad",
                "network": "attention flow",
                "elmo": elmo,
                "seed": 0,
                **told,
                **budget.settings(words=WORDS),
            },
            measure,
            (*_FILES, VECTORS),
            minutes=13.0 if elmo == "none" else 15.0,
            reads_model=elmo != "none",
        )
        for elmo, told in (("none", {}), ("input", {}), ("input", NO_DROPOUT))
    ]


def measure(resources: Resources, settings: Settings) -> Measurement:
    """Exact match and F1 of SQuAD 1.1 on the test articles."""
    questions = [first(read_squad(resources.path(path)), settings["most_sentences"]) for path in _FILES]
    train, test = ([split_question(question) for question in part] for part in questions)
    train = [_cut(question) for question in train if question.end <= _MOST_CONTEXT]
    features = SentenceFeatures(
        [words for part in (train, test) for entry in part for words in (entry.question, entry.context)],
        resources,
        vectors=StaticVectors(resources.path(VECTORS)),
        elmo=settings["elmo"] != "none",
        max_characters_per_word=50,
    )
    torch.manual_seed(settings["seed"])
    model = FeaturesForQuestionAnswering(
        feature_config(
            features,
            **mix_settings(settings),
            classifier_lstm_size=90,
            classifier_dropout=0.2,
        )
    )
    model.features = features
    training = train_head(
        model,
        _examples(train, features),
        words=settings["words"],
        batch_size=16,
        learning_rate=0.001,
        seed=settings["seed"],
        device=resources.device,
    )
    exact = f1 = 0.0
    for number, output, row in predict(model, _examples(test, features), device=resources.device):
        entry, question = test[number], questions[1][number]
        # <S> question </S> <S> context
        begin = len(entry.question) + 3
        end = begin + len(entry.context)
        first_word, last_word = best_span(output.start_logits[row, begin:end], output.end_logits[row, begin:end])
        answer = question.context[entry.offsets[first_word][0] : entry.offsets[last_word][1]]
        exact += max(normalised(answer) == normalised(gold) for gold in question.answers)
        f1 += max(word_f1(answer, gold) for gold in question.answers)
    count = len(test)
    return Measurement(
        {"f1": 100 * f1 / count, "exact": 100 * exact / count, "training_questions": len(train), "questions": count},
        steps=training.steps,
        words=training.words,
        training_seconds=training.seconds,
        layer_weights=model.layer_weights(),
    )


def split_question(question: Question) -> Split:
    """Words of the question and of the context; the answer's first word, and the word after its last."""
    splitting = english_splitting()
    context = splitting.pre_tokenize_str(question.context)
    offsets = [place for _, place in context]
    answer_end = question.start + len(question.answers[0])
    inside = [n for n, (begin, end) in enumerate(offsets) if begin < answer_end and end > question.start]
    return Split(
        [word for word, _ in splitting.pre_tokenize_str(question.question)],
        [word for word, _ in context],
        offsets,
        inside[0],
        inside[-1] + 1,
    )


def best_span(start: Tensor, end: Tensor) -> tuple[int, int]:
    """The first and the last word with the largest sum of scores, at most 17 words apart.

    Shape:
        start (S,), end (S,)
    """
    scores = start.unsqueeze(1) + end.unsqueeze(0)  # (S, S)
    allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(_LONGEST_ANSWER - 1)
    best = int(scores.masked_fill(~allowed, -torch.inf).argmax())
    return best // len(start), best % len(start)


def normalised(answer: str) -> str:
    """As the scorer of SQuAD: lower case, without punctuation and articles, single spaces."""
    kept = "".join(character for character in answer.lower() if character not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def word_f1(answer: str, gold: str) -> float:
    """F1 of the normalised words that both have."""
    guessed, true = normalised(answer).split(), normalised(gold).split()
    same = sum((Counter(guessed) & Counter(true)).values())
    return 2 * same / (len(guessed) + len(true)) if same else 0.0


def _cut(question: Split) -> Split:
    return question._replace(context=question.context[:_MOST_CONTEXT], offsets=question.offsets[:_MOST_CONTEXT])


def _examples(questions: Sequence[Split], features: SentenceFeatures) -> list[Example]:
    examples = []
    for entry in questions:
        rows = [features.character_ids(words) for words in (entry.question, entry.context)]
        begin = len(rows[0]) + 1  # behind the context's <S>
        examples.append(
            {
                "character_ids": torch.from_numpy(np.concatenate(rows)),
                "start_positions": torch.tensor(begin + entry.start),
                "end_positions": torch.tensor(begin + entry.end - 1),
            }
        )
    return examples
