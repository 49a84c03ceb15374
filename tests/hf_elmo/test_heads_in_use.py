"""The heads as people use them: pipelines, Trainer, collators and datasets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForTokenClassification,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    pipeline,
)

from hf_elmo import ElmoForSequenceClassification, ElmoForTokenClassification, ElmoTokenizer
from tests.hf_elmo.models import random_head, random_model

TEXT = "Mary's dog let New-York out."
WORDS = ["Mary", "'s", "dog", "let", "New", "-", "York", "out", "."]
NAMES = {0: "O", 1: "B-X", 2: "I-X"}


def named_head(**changes: Any) -> ElmoForTokenClassification:
    label2id = {name: number for number, name in NAMES.items()}
    return random_head(ElmoForTokenClassification, id2label=NAMES, label2id=label2id, **changes)


@pytest.mark.parametrize("use_crf", [False, True])
def test_token_classification_of_raw_text(use_crf: bool) -> None:
    """A result for every word, with its offsets and the model's own probability."""
    model = named_head(use_crf=use_crf)
    results = pipeline("token-classification", model=model, tokenizer=ElmoTokenizer())(TEXT, ignore_labels=[])
    assert [TEXT[r["start"] : r["end"]] for r in results] == WORDS
    with torch.no_grad():
        output = model(**ElmoTokenizer()(TEXT, return_tensors="pt"))
    shares = output.logits.softmax(-1)[0, 1:-1]
    assert [r["entity"] for r in results] == [NAMES[k] for k in shares.argmax(-1).tolist()]
    np.testing.assert_allclose([r["score"] for r in results], shares.amax(-1), rtol=1e-5)


def test_the_pipelines_scores_are_those_of_the_whole_sentence() -> None:
    """A CRF whose tags may not follow each other: the words' own scores would say otherwise."""
    model = named_head(use_crf=True)
    with torch.no_grad():
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0.1, -9.0]))
        for parameter in model.crf.parameters():
            parameter.zero_()
        model.crf.transitions[1, 1] = -20.0
        model.crf.start_transitions[0] = -20.0
    results = pipeline("token-classification", model=model, tokenizer=ElmoTokenizer())("a b c", ignore_labels=[])
    assert [r["entity"] for r in results] == ["B-X", "O", "B-X"]


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_words_of_an_entity_are_joined(strategy: str) -> None:
    model = named_head()
    with torch.no_grad():  # every word is I-X
        model.classifier.weight.zero_()
        model.classifier.bias.copy_(torch.tensor([0.0, 0.0, 5.0]))
    ner = pipeline("token-classification", model=model, tokenizer=ElmoTokenizer(), aggregation_strategy=strategy)
    (entity,) = ner("New York")
    assert (entity["entity_group"], entity["word"], entity["start"], entity["end"]) == ("X", "New York", 0, 8)
    assert [[(e["start"], e["end"]) for e in text] for text in ner(["New York", "a b c"])] == [[(0, 8)], [(0, 5)]]


def test_token_classification_of_words() -> None:
    words = ["Mary", "New-York", "don't"]
    ner = pipeline("token-classification", model=named_head(), tokenizer=ElmoTokenizer())
    results = ner(words, is_split_into_words=True, ignore_labels=[])
    results = results[0] if isinstance(results[0], list) else results
    joined = " ".join(words)
    assert [joined[r["start"] : r["end"]] for r in results] == words


def test_feature_extraction() -> None:
    model = random_model()
    features = pipeline("feature-extraction", model=model, tokenizer=ElmoTokenizer())(TEXT, return_tensors=True)
    with torch.no_grad():
        expected = model(**ElmoTokenizer()(TEXT, return_tensors="pt")).last_hidden_state
    torch.testing.assert_close(features, expected)


def test_text_classification_alone_in_batches_and_in_pairs() -> None:
    model = random_head(ElmoForSequenceClassification)
    classify = pipeline("text-classification", model=model, tokenizer=ElmoTokenizer(), top_k=None)
    texts = [TEXT, "Yes .", "No"]
    for batch_size in (1, 3):
        results = classify(texts, batch_size=batch_size)
        for text, result in zip(texts, results, strict=True):
            shares = model(**ElmoTokenizer()(text, return_tensors="pt")).logits.softmax(-1)[0]
            assert {r["label"]: pytest.approx(r["score"], abs=1e-5) for r in result} == {
                f"LABEL_{k}": share for k, share in enumerate(shares.tolist())
            }
    model = random_head(ElmoForSequenceClassification, sentence_pairs=True)
    classify = pipeline("text-classification", model=model, tokenizer=ElmoTokenizer())
    shares = model(**ElmoTokenizer()("a b", "c", return_tensors="pt")).logits.softmax(-1)[0]
    assert classify({"text": "a b", "text_pair": "c"})["score"] == pytest.approx(shares.max().item(), abs=1e-5)


def arguments(folder: Path, **changes: Any) -> TrainingArguments:
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "per_device_eval_batch_size": 3,
        "num_train_epochs": 8,
        "learning_rate": 0.1,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 0,
    }
    return TrainingArguments(**{**settings, **changes})


def word_rows(count: int) -> dict[str, list[list[Any]]]:
    """Words with tags: numbers are 1, others 0."""
    rng = np.random.default_rng(0)
    words = [
        [str(rng.integers(10, 99)) if rng.random() < 0.5 else "ab" for _ in range(rng.integers(1, 6))]
        for _ in range(count)
    ]
    return {"words": words, "tags": [[int(w.isdigit()) for w in sentence] for sentence in words]}


@pytest.mark.parametrize("use_crf", [False, True])
def test_trainer_on_labelled_words(use_crf: bool, tmp_path: Path) -> None:
    """The usual recipe for BERT: map, collate, train, predict, save and load."""
    datasets = pytest.importorskip("datasets", reason="needs the extra: pip install 'spacy-elmo[train]'")
    tokenizer = ElmoTokenizer()

    def prepare(rows: dict[str, list[list[Any]]]) -> Any:
        encoded = tokenizer(rows["words"], is_split_into_words=True)
        encoded["labels"] = [
            [-100 if word is None else tags[word] for word in encoded.word_ids(row)]
            for row, tags in enumerate(rows["tags"])
        ]
        return encoded

    data = datasets.Dataset.from_dict(word_rows(24)).map(prepare, batched=True, remove_columns=["words", "tags"])
    model = random_head(ElmoForTokenClassification, num_labels=2, use_crf=use_crf, elmo_dropout=0.1)
    before = {name: p.clone() for name, p in model.named_parameters()}
    seen: dict[str, tuple[int, ...]] = {}

    def accuracy(prediction: Any) -> dict[str, float]:
        seen["logits"], labels = prediction.predictions.shape, prediction.label_ids
        known = labels != -100
        return {"accuracy": float((prediction.predictions.argmax(-1) == labels)[known].mean())}

    trainer = Trainer(
        model=model,
        args=arguments(tmp_path / "run", num_train_epochs=15),
        train_dataset=data,
        eval_dataset=data,
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    assert trainer.evaluate()["eval_accuracy"] < 0.9
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_accuracy"] > 0.95
    assert seen["logits"] == (24, 7, 2)
    changed = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {name for name, p in model.named_parameters() if p.requires_grad}
    trainer.save_model(str(tmp_path / "model"))
    ner = pipeline("token-classification", model=str(tmp_path / "model"))
    assert [r["entity"] for r in ner("ab 45 ab")] == ["LABEL_0", "LABEL_1", "LABEL_0"]
    assert type(AutoModelForTokenClassification.from_pretrained(tmp_path / "model")) is ElmoForTokenClassification


def test_trainer_accumulates_gradients_to_the_same_step(tmp_path: Path) -> None:
    """Two rows at once, and one row twice: the same weights after a step."""
    tokenizer = ElmoTokenizer()
    rows = [
        {**tokenizer(text), "labels": [-100] + [k] * len(text.split()) + [-100]}
        for k, text in enumerate(["a b", "c d"])
    ]
    weights = []
    for size in (2, 1):
        model = random_head(ElmoForTokenClassification, elmo_dropout=0.0)
        Trainer(
            model=model,
            args=arguments(
                tmp_path / str(size),
                per_device_train_batch_size=size,
                gradient_accumulation_steps=2 // size,
                max_steps=1,
                optim="sgd",
                max_grad_norm=0,
            ),
            train_dataset=rows,
            data_collator=DataCollatorForTokenClassification(tokenizer),
        ).train()
        weights.append(model.classifier.weight.detach().clone())
    torch.testing.assert_close(*weights)
    assert not torch.equal(weights[0], random_head(ElmoForTokenClassification).classifier.weight)


def test_trainer_on_sentences_padded_on_the_fly(tmp_path: Path) -> None:
    """The collator pads the character ids too; the biLM is fine-tuned."""
    datasets = pytest.importorskip("datasets", reason="needs the extra: pip install 'spacy-elmo[train]'")
    tokenizer = ElmoTokenizer()
    texts = [f"{a} {b}" for a in ("ab", "cd ab", "a c b") for b in ("12", "34", "yx", "zy")]
    rows = {"text": texts, "label": [int(text[-1].isdigit()) for text in texts]}
    data = datasets.Dataset.from_dict(rows).map(lambda row: tokenizer(row["text"]), remove_columns=["text"])
    collate = DataCollatorWithPadding(tokenizer)
    batch = collate([data[0], data[11]])
    assert batch["character_ids"].shape == (2, 6, 50)
    assert batch["character_ids"].any(-1).tolist() == batch["attention_mask"].bool().tolist()
    model = random_head(ElmoForSequenceClassification, num_labels=2, freeze_bilm=False, elmo_dropout=0.0)
    trainer = Trainer(
        model=model,
        args=arguments(tmp_path, num_train_epochs=30, learning_rate=0.02),
        train_dataset=data,
        eval_dataset=data,
        data_collator=collate,
        compute_metrics=lambda p: {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())},
    )
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    metrics = trainer.evaluate()
    assert metrics["eval_loss"] < 0.7 * before
    assert metrics["eval_accuracy"] > 0.9


def test_a_pipeline_over_pairs_takes_an_empty_second_text() -> None:
    model = random_head(ElmoForSequenceClassification, sentence_pairs=True)
    classify = pipeline("text-classification", model=model, tokenizer=ElmoTokenizer())
    pairs = [{"text": "a b", "text_pair": "c"}, {"text": "a b", "text_pair": ""}]
    assert [found["score"] > 0 for found in classify(pairs)] == [True, True]
