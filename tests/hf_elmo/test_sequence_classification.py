from typing import Any

import numpy as np
import pytest
import torch

from hf_elmo import ElmoForSequenceClassification, ElmoTokenizer
from tests.hf_elmo.models import ids, random_head, tiny_config

SENTENCES = [["The", "dog", "barks"], ["Yes"]]


def mixes(model: ElmoForSequenceClassification) -> list[np.ndarray]:
    """Of each sentence alone, boundaries included."""
    with torch.no_grad():
        return [model.elmo(*ids([sentence])).last_hidden_state[0].numpy() for sentence in SENTENCES]


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("boundaries", [False, True])
def test_pooling(pooling: str, boundaries: bool) -> None:
    model = random_head(ElmoForSequenceClassification, pooling=pooling, pool_boundaries=boundaries)
    pool = np.mean if pooling == "mean" else np.max
    pooled = np.stack([pool(x if boundaries else x[1:-1], axis=0) for x in mixes(model)])
    expected = pooled @ model.classifier.weight.detach().numpy().T + model.classifier.bias.detach().numpy()
    np.testing.assert_allclose(model(*ids(SENTENCES)).logits.detach(), expected, atol=1e-5)


def test_a_pair_is_two_sentences_read_apart() -> None:
    model = random_head(ElmoForSequenceClassification, sentence_pairs=True)
    tokenizer = ElmoTokenizer()
    with torch.no_grad():
        logits = model(**tokenizer("The dog barks", "Yes", return_tensors="pt")).logits.numpy()
    u, v = (x[1:-1].mean(0) for x in mixes(model))
    features = np.concatenate([u, v, np.abs(u - v), u * v])
    expected = model.classifier.weight.detach().numpy() @ features + model.classifier.bias.detach().numpy()
    np.testing.assert_allclose(logits[0], expected, atol=1e-5)


def test_a_single_sentence_where_pairs_are_classified_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a pair in every row"):
        random_head(ElmoForSequenceClassification, sentence_pairs=True)(*ids(SENTENCES))


def test_an_empty_sentence_is_zero_before_the_classifier() -> None:
    for pooling in ("mean", "max"):
        model = random_head(ElmoForSequenceClassification, pooling=pooling)
        torch.testing.assert_close(model(*ids([[]])).logits[0], model.classifier.bias)
    model = random_head(ElmoForSequenceClassification, pooling="biattention")
    assert torch.isfinite(model(*ids([[], ["a"]])).logits).all()


@pytest.mark.parametrize(
    ("num_labels", "labels", "problem_type"),
    [
        (3, torch.tensor([2, 0]), "single_label_classification"),
        (1, torch.tensor([0.5, -2.0]), "regression"),
        (3, torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]), "multi_label_classification"),
        (2, torch.tensor([[0.5, 1.5], [2.0, -1.0]]), "regression"),
    ],
)
def test_the_loss_of_each_kind_of_problem(num_labels: int, labels: torch.Tensor, problem_type: str) -> None:
    given = "regression" if num_labels == 2 else None
    model = random_head(ElmoForSequenceClassification, num_labels=num_labels, problem_type=given)
    output = model(*ids(SENTENCES), labels=labels)
    scores, target = output.logits.detach().numpy().astype(float), labels.numpy()
    if problem_type == "regression":
        expected = np.mean((scores.squeeze() - target) ** 2)
    elif problem_type == "multi_label_classification":
        expected = -np.mean(target * -np.log1p(np.exp(-scores)) + (1 - target) * -np.log1p(np.exp(scores)))
    else:
        expected = -np.mean([row[t] - np.log(np.exp(row).sum()) for row, t in zip(scores, target, strict=True)])
    assert output.loss.item() == pytest.approx(expected, rel=1e-4)
    assert model.config.problem_type == problem_type


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([3, 0]), "labels: got 3; expected 0 to 2"),
        (torch.tensor([0, 1, 2]), r"labels: got shape \(3,\); expected \(2,\)"),
    ],
)
def test_labels_that_cannot_be_are_refused(labels: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        random_head(ElmoForSequenceClassification)(*ids(SENTENCES), labels=labels)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"pooling": "max"}, {"pooling": "biattention"}])
def test_it_learns_whether_a_number_is_in_a_sentence(changes: dict[str, Any]) -> None:
    torch.manual_seed(0)
    config = tiny_config(
        num_labels=2, elmo_dropout=0.1, classifier_dropout=0.0, classifier_lstm_size=8, freeze_bilm=False, **changes
    )
    model = ElmoForSequenceClassification(config)
    tokenizer, rng = ElmoTokenizer(), np.random.default_rng(0)

    def examples(count: int) -> dict[str, torch.Tensor]:
        labels = rng.integers(2, size=count)
        rows = []
        for label in labels:
            words = ["".join(rng.choice(list("abcdefghij"), size=3)) for _ in range(rng.integers(2, 6))]
            if label:
                words[rng.integers(len(words))] = "".join(rng.choice(list("0123456789"), size=3))
            rows.append(words)
        batch = tokenizer(rows, is_split_into_words=True, padding=True, return_tensors="pt")
        return {**batch, "labels": torch.from_numpy(labels)}

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(120):
        optimizer.zero_grad()
        model(**examples(16)).loss.backward()
        optimizer.step()
    unseen = examples(100)
    with torch.no_grad():
        predicted = model.eval()(**unseen).logits.argmax(-1)
    assert (predicted == unseen["labels"]).float().mean() > 0.8
    assert 0.35 < unseen["labels"].float().mean() < 0.65


def test_pairs_are_learned() -> None:
    """Whether two words are the same, which neither tells alone; the biLM is frozen."""
    torch.manual_seed(0)
    config = tiny_config(
        num_labels=2, elmo_dropout=0.0, classifier_dropout=0.0, classifier_lstm_size=8, sentence_pairs=True
    )
    model = ElmoForSequenceClassification(config)
    tokenizer, rng = ElmoTokenizer(), np.random.default_rng(0)
    words = [f"{'abcdefgh'[k] * (k + 1)}" for k in range(8)]

    def examples(count: int) -> dict[str, torch.Tensor]:
        first = rng.integers(8, size=count)
        labels = rng.integers(2, size=count)
        second = np.where(labels == 1, first, (first + rng.integers(1, 8, size=count)) % 8)
        batch = tokenizer([words[k] for k in first], [words[k] for k in second], padding=True, return_tensors="pt")
        return {**batch, "labels": torch.from_numpy(labels)}

    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model.train()
    for _ in range(100):
        optimizer.zero_grad()
        model(**examples(32)).loss.backward()
        optimizer.step()
    unseen = examples(100)
    with torch.no_grad():
        predicted = model.eval()(**unseen).logits.argmax(-1)
    assert (predicted == unseen["labels"]).float().mean() > 0.9


@pytest.mark.parametrize("kind", [torch.long, torch.int, torch.uint8, torch.bool])
def test_labels_of_several_classes_may_be_integers(kind: torch.dtype) -> None:
    model = random_head(ElmoForSequenceClassification, problem_type="multi_label_classification")
    character_ids = ids([["a", "b"], ["c"]])[0]
    labels = torch.tensor([[1, 0, 1], [0, 0, 1]])
    loss = model(character_ids, labels=labels.to(kind)).loss
    assert loss == model(character_ids, labels=labels.float()).loss
    loss.backward()


def test_integers_of_a_regression() -> None:
    model = random_head(ElmoForSequenceClassification, num_labels=1)
    character_ids = ids([["a", "b"], ["c"]])[0]
    loss = model(character_ids, labels=torch.tensor([3, -1])).loss
    assert loss == model(character_ids, labels=torch.tensor([3.0, -1.0])).loss
    loss.backward()


@pytest.mark.parametrize(
    ("options", "labels", "message"),
    [
        ({"problem_type": "multi_label_classification"}, [[0, 2, 1]], "labels: got 2; expected 0 or 1"),
        ({"problem_type": "multi_label_classification"}, [[0, -100, 1]], "labels: got -100; expected 0 or 1"),
        ({"problem_type": "multi_label_classification"}, [1], r"labels: got shape \(1,\); expected \(1, 3\)"),
        ({"problem_type": "regression"}, [1.0], r"labels: got shape \(1,\); expected \(1, 3\)"),
        ({"num_labels": 1}, [1.0, 2.0], r"labels: got shape \(2,\); expected \(1,\)"),
        ({}, [[0, 1, 1]], "set config.problem_type to 'multi_label_classification'"),
        ({}, [0.5], r"labels: got shape \(1,\); expected \(1, 3\), 0 or 1 for every class"),
    ],
)
def test_labels_that_do_not_fit_the_problem(options: dict[str, Any], labels: list[Any], message: str) -> None:
    model = random_head(ElmoForSequenceClassification, **options)
    with pytest.raises(ValueError, match=message):
        model(ids([["a", "b"]])[0], labels=torch.tensor(labels))
