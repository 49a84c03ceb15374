import numpy as np
import pytest
import torch

from hf_elmo import ElmoForQuestionAnswering, ElmoTokenizer
from tests.hf_elmo.models import ids, random_head, tiny_config

QUESTIONS, CONTEXTS = ["Who let it out ?", "Who ?"], ["the dog", "my cat and me"]


def batch(**kwargs: object) -> dict[str, torch.Tensor]:
    return dict(ElmoTokenizer()(QUESTIONS, CONTEXTS, padding=True, return_tensors="pt", **kwargs))


def test_only_words_of_the_context_can_be_the_answer() -> None:
    with torch.no_grad():
        output = random_head(ElmoForQuestionAnswering)(**batch())
    context = torch.tensor([[0] * 8 + [1, 1, 0], [0] * 5 + [1, 1, 1, 1, 0, 0]]).bool()
    for logits in (output.start_logits, output.end_logits):
        assert (logits[~context] == torch.finfo(torch.float32).min).all()
        assert logits[context].abs().max() < 100
        assert not logits.softmax(-1)[~context].any()


def test_the_loss_is_the_mean_over_start_and_end() -> None:
    model = random_head(ElmoForQuestionAnswering)
    output = model(**batch(), start_positions=torch.tensor([8, 6]), end_positions=torch.tensor([9, 8]))

    def nll(logits: torch.Tensor, positions: list[int]) -> float:
        rows = logits.detach().double().numpy()
        return float(np.mean([np.log(np.exp(row).sum()) - row[p] for row, p in zip(rows, positions, strict=True)]))

    expected = (nll(output.start_logits, [8, 6]) + nll(output.end_logits, [9, 8])) / 2
    assert output.loss.item() == pytest.approx(expected, rel=1e-5)


def test_an_answer_outside_the_context_is_ignored() -> None:
    """Position 0 and the row's length are how preparation marks a cut answer."""
    model = random_head(ElmoForQuestionAnswering)
    both = model(**batch(), start_positions=torch.tensor([8, 6]), end_positions=torch.tensor([9, 8])).loss
    first = {name: x[:1] for name, x in batch().items()}
    alone = model(**first, start_positions=torch.tensor([8]), end_positions=torch.tensor([9])).loss
    assert abs(alone - both) > 1e-4
    for outside in (0, 2, 11, -100):
        start, end = torch.tensor([8, outside]), torch.tensor([9, outside])
        torch.testing.assert_close(model(**batch(), start_positions=start, end_positions=end).loss, alone)
    nothing = model(**batch(), start_positions=torch.zeros(2).long(), end_positions=torch.zeros(2).long()).loss
    assert nothing.item() == 0


def test_arguments_that_cannot_be_are_refused() -> None:
    model = random_head(ElmoForQuestionAnswering)
    with pytest.raises(ValueError, match="together with end_positions"):
        model(**batch(), start_positions=torch.tensor([8, 6]))
    with pytest.raises(ValueError, match=r"got shape \(1,\); expected \(2,\)"):
        model(**batch(), start_positions=torch.tensor([8]), end_positions=torch.tensor([8]))
    with pytest.raises(ValueError, match="expected a pair"):
        model(*ids([["a"]]))


@pytest.mark.slow
def test_it_learns_to_find_what_the_question_names() -> None:
    """The word after the one that the question is about; the question alone, or the context alone, does not tell."""
    torch.manual_seed(0)
    config = tiny_config(
        elmo_dropout=0.0, classifier_dropout=0.0, classifier_lstm_size=12, freeze_bilm=False, elmo_placement="both"
    )
    model = ElmoForQuestionAnswering(config)
    tokenizer, rng = ElmoTokenizer(), np.random.default_rng(0)
    names = np.array(["anna", "ben", "carlo", "d", "eve"])

    def examples(count: int) -> dict[str, torch.Tensor]:
        questions, contexts, starts = [], [], []
        for _ in range(count):
            order = rng.permutation(5)
            asked = int(rng.integers(5))
            questions.append([str(names[order[asked]])])
            contexts.append([word for k in order for word in (str(names[k]), str(rng.integers(100, 1000)))])
            starts.append(4 + 2 * asked + 1)
        encoded = tokenizer(questions, contexts, is_split_into_words=True, padding=True, return_tensors="pt")
        return {**encoded, "start_positions": torch.tensor(starts), "end_positions": torch.tensor(starts)}

    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(150):
        optimizer.zero_grad()
        model(**examples(16)).loss.backward()
        optimizer.step()
    unseen = examples(100)
    with torch.no_grad():
        predicted = model.eval()(**unseen).start_logits.argmax(-1)
    assert (predicted == unseen["start_positions"]).float().mean() > 0.5  # of five names
