import numpy as np
import pytest
import torch
from transformers import DataCollatorForTokenClassification

from hf_elmo import ElmoForTokenClassification, ElmoTokenizer
from tests.hf_elmo.models import ids, random_head, tiny_config

SENTENCES = [["The", "dog", "barks"], ["Yes"]]
LABELS = torch.tensor([[-100, 0, 2, -100, -100], [-100, 1, -100, -100, -100]])


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


@pytest.mark.parametrize("elmo", [0, 1])
def test_the_loss_is_the_mean_over_the_labelled_words(elmo: int) -> None:
    model = random_head(ElmoForTokenClassification, classifier_num_layers=elmo)
    output = model(*ids(SENTENCES), labels=LABELS)
    scores = log_softmax(output.logits.detach().numpy())
    assert output.loss.item() == pytest.approx(-(scores[0, 1, 0] + scores[0, 2, 2] + scores[1, 1, 1]) / 3, rel=1e-5)


def test_logits_are_a_linear_layer_on_the_mix() -> None:
    model = random_head(ElmoForTokenClassification)
    with torch.no_grad():
        mix = model.elmo(*ids(SENTENCES)).last_hidden_state.numpy()
        logits = model(*ids(SENTENCES)).logits.numpy()
    weight, bias = model.classifier.weight.detach().numpy(), model.classifier.bias.detach().numpy()
    np.testing.assert_allclose(logits, mix @ weight.T + bias, atol=1e-5)


def test_a_label_of_minus_100_does_not_count() -> None:
    model = random_head(ElmoForTokenClassification)
    character_ids, mask = ids(SENTENCES)
    one = LABELS.clone()
    one[1, 1] = -100
    alone = model(character_ids[:1], mask[:1], labels=LABELS[:1]).loss
    torch.testing.assert_close(model(character_ids, mask, labels=one).loss, alone)


@pytest.mark.parametrize("use_crf", [False, True])
def test_nothing_labelled_is_no_loss_and_no_gradient(use_crf: bool) -> None:
    model = random_head(ElmoForTokenClassification, use_crf=use_crf)
    loss = model(*ids(SENTENCES), labels=torch.full((2, 5), -100)).loss
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad.any() for p in model.parameters() if p.grad is not None)


def test_predictions_are_the_best_tags_of_words() -> None:
    model = random_head(ElmoForTokenClassification)
    output = model(*ids(SENTENCES))
    best = output.logits.argmax(-1)
    assert output.predictions.tolist() == [
        [-100, *best[0, 1:4].tolist(), -100],
        [-100, best[1, 1].item(), -100, -100, -100],
    ]


def test_the_crf_reads_what_the_classifier_gives_each_word() -> None:
    """Enumerated on the scores of a model without it; its logits are normalised over the tags."""
    plain = random_head(ElmoForTokenClassification, classifier_num_layers=1)
    model = random_head(ElmoForTokenClassification, classifier_num_layers=1, use_crf=True)
    model.load_state_dict(plain.state_dict(), strict=False)
    output = model(*ids(SENTENCES), labels=LABELS)
    scores = plain(*ids(SENTENCES)).logits.detach()
    words = torch.tensor([[False, True, True, True, False], [False, True, False, False, False]])
    expected = -model.crf.log_likelihood(scores, LABELS, words).mean()
    torch.testing.assert_close(output.loss, expected)
    assert output.predictions.tolist() == model.crf.decode(scores, words).tolist()
    torch.testing.assert_close(output.logits[words].exp().sum(-1), torch.ones(4))


def test_boundaries_are_no_part_of_the_crfs_chain() -> None:
    """Their scores and their labels change nothing."""
    model = random_head(ElmoForTokenClassification, use_crf=True)
    labels = LABELS.clone()
    labels[:, 0] = 2
    torch.testing.assert_close(model(*ids(SENTENCES), labels=labels).loss, model(*ids(SENTENCES), labels=LABELS).loss)
    without = ElmoTokenizer()(SENTENCES[:1], is_split_into_words=True, add_special_tokens=False, return_tensors="pt")
    chain = model.crf.decode(
        model.classifier(model.elmo(*ids(SENTENCES[:1])).last_hidden_state[:, 1:4]), without["attention_mask"].bool()
    )
    assert model(*ids(SENTENCES[:1])).predictions[:, 1:4].tolist() == chain.tolist()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(2, 4, dtype=torch.long), r"labels: got shape \(2, 4\); expected \(2, 5\)"),
        (torch.full((2, 5), 3), r"labels: got 3; expected 0 to 2, or -100"),
        (torch.full((2, 5), -1), r"labels: got -1; expected 0 to 2, or -100"),
    ],
)
@pytest.mark.parametrize("use_crf", [False, True])
def test_labels_that_cannot_be_are_refused(labels: torch.Tensor, message: str, use_crf: bool) -> None:
    with pytest.raises(ValueError, match=message):
        random_head(ElmoForTokenClassification, use_crf=use_crf)(*ids(SENTENCES), labels=labels)


@pytest.mark.parametrize("changes", [{}, {"use_crf": True, "classifier_num_layers": 1, "elmo_placement": "both"}])
def test_it_learns_to_tell_capitals_and_numbers(changes: dict[str, object]) -> None:
    """On words it has not seen, from the characters alone: far above the most frequent tag's share."""
    torch.manual_seed(0)
    config = tiny_config(
        num_labels=3, elmo_dropout=0.1, classifier_dropout=0.0, classifier_lstm_size=8, freeze_bilm=False, **changes
    )
    model = ElmoForTokenClassification(config)
    tokenizer = ElmoTokenizer()
    collate = DataCollatorForTokenClassification(tokenizer)
    rng = np.random.default_rng(0)

    def word() -> tuple[str, int]:
        kind = int(rng.integers(3))
        letters = "".join(rng.choice(list("0123456789" if kind == 2 else "abcdefghij"), size=3))
        return (letters.upper() if kind == 1 else letters), kind

    def examples(count: int) -> dict[str, torch.Tensor]:
        rows = []
        for _ in range(count):
            words, tags = zip(*[word() for _ in range(rng.integers(2, 6))], strict=True)
            rows.append({**tokenizer(list(words), is_split_into_words=True), "labels": [-100, *tags, -100]})
        return dict(collate(rows))

    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    model.train()
    for _ in range(80):
        optimizer.zero_grad()
        model(**examples(16)).loss.backward()
        optimizer.step()
    unseen = examples(60)
    with torch.no_grad():
        predictions = model.eval()(**unseen).predictions
    known = unseen["labels"] != -100
    assert (predictions[known] == unseen["labels"][known]).float().mean() > 0.9
    assert (unseen["labels"][known].bincount() / known.sum()).max() < 0.5
