"""Named entities by a biLSTM-CRF over ELMo vectors (Lample et al. 2016; Peters et al. 2018)."""

import itertools
import random

import torch
from torch import Tensor, nn

from hf_elmo.allennlp import Elmo, batch_to_ids

LABELS = ["O", "B-PER", "I-PER", "B-LOC"]
PEOPLE = [
    "John Brown", "Mary Stone", "Henry Walker", "Anna Lee", "George Hill", "Thomas", "Emily Carter", "Alice", "Robert",
    "William Ross", "Jane Fisher", "Walter", "Helen Marsh", "Arthur", "Kate Wood", "Philip Grant",
]  # fmt: skip
PLACES = ["London", "Paris", "Boston", "Rome", "Dublin", "Vienna", "Chicago", "Naples", "Oxford", "York", "Geneva"]
TEMPLATES = [
    "{p} went to {l} in the spring .",
    "I met {p} in {l} yesterday .",
    "The road to {l} was long and dusty .",
    "{p} said nothing for a while .",
    "They lived near {l} with {p} .",
    "We asked {p} to come with us .",
    "The letter from {p} came from {l} .",
    "{p} came home from {l} at last .",
    "In {l} we saw {p} again .",
    "Nobody had seen {p} since then .",
]
NEW_PEOPLE, NEW_PLACES = ["Charles Morgan", "Lucy", "Edward Green"], ["Berlin", "Bristol", "Madrid"]
NEW_TEMPLATES = ["{p} wrote to me from {l} .", "In {l} nobody had heard of {p} .", "At last {p} went back to {l} ."]
Sentence = tuple[list[str], list[int]]


class CRF(nn.Module):
    """A linear chain over labels: scores of transitions, of the first label and of the last."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(labels, labels))
        self.first, self.last = nn.Parameter(torch.zeros(labels)), nn.Parameter(torch.zeros(labels))

    def score(self, emissions: Tensor, labels: Tensor) -> Tensor:
        """(n, K), (n,) → ()."""
        steps = self.transitions[labels[:-1], labels[1:]].sum()
        chosen = emissions.gather(1, labels.unsqueeze(1)).sum()
        return self.first[labels[0]] + chosen + steps + self.last[labels[-1]]

    def log_partition(self, emissions: Tensor) -> Tensor:
        """(n, K) → (): log of the sum over all label sequences."""
        alpha = self.first + emissions[0]  # (K,)
        for emission in emissions[1:]:
            alpha = torch.logsumexp(alpha.unsqueeze(1) + self.transitions, dim=0) + emission
        return torch.logsumexp(alpha + self.last, dim=0)

    def best(self, emissions: Tensor) -> list[int]:
        """(n, K) → the label sequence of the highest score."""
        score, back = self.first + emissions[0], []
        for emission in emissions[1:]:
            best, origin = (score.unsqueeze(1) + self.transitions).max(dim=0)
            score = best + emission
            back.append(origin)
        path = [int((score + self.last).argmax())]
        for origin in reversed(back):
            path.append(int(origin[path[-1]]))
        return path[::-1]


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.elmo = Elmo(None, None, 1, dropout=0.3)
        self.lstm = nn.LSTM(self.elmo.get_output_dim(), 24, batch_first=True, bidirectional=True)
        self.output = nn.Linear(48, len(LABELS))
        self.crf = CRF(len(LABELS))

    def emissions(self, sentences: list[list[str]]) -> list[Tensor]:
        """Per sentence (n, K)."""
        output = self.elmo(batch_to_ids(sentences))
        lengths = output["mask"].sum(dim=1)
        packed = nn.utils.rnn.pack_padded_sequence(
            output["elmo_representations"][0], lengths, batch_first=True, enforce_sorted=False
        )
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return [scores[:length] for scores, length in zip(self.output(hidden), lengths, strict=True)]

    def loss(self, batch: list[Sentence]) -> Tensor:
        emissions = self.emissions([words for words, _ in batch])
        return torch.stack(
            [
                self.crf.log_partition(scores) - self.crf.score(scores, torch.tensor(labels))
                for scores, (_, labels) in zip(emissions, batch, strict=True)
            ]
        ).mean()

    @torch.no_grad()
    def predict(self, sentences: list[list[str]]) -> list[list[int]]:
        return [self.crf.best(scores) for scores in self.emissions(sentences)]


def fill(template: str, person: str, place: str) -> Sentence:
    words: list[str] = []
    labels: list[int] = []
    for part in template.split():
        inserted = {"{p}": person, "{l}": place}.get(part, part).split()
        kinds = {"{p}": [1] + [2] * (len(inserted) - 1), "{l}": [3]}.get(part, [0])
        words += inserted
        labels += kinds
    return words, labels


def spans(labels: list[int]) -> set[tuple[int, int, int]]:
    found, start = set(), None
    for position, label in enumerate([*labels, 0]):
        if start is not None and label != 2:
            found.add((start, position, labels[start]))
            start = None
        if label in (1, 3):
            start = position
    return found


def f1(tagger: Tagger, sentences: list[Sentence]) -> float:
    predicted = [spans(labels) for labels in tagger.predict([words for words, _ in sentences])]
    gold = [spans(labels) for _, labels in sentences]
    right = sum(len(p & g) for p, g in zip(predicted, gold, strict=True))
    return 2 * right / (sum(map(len, predicted)) + sum(map(len, gold)))


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    training = [fill(t, random.choice(PEOPLE), random.choice(PLACES)) for t in TEMPLATES * 6]
    held_out = [fill(*choice) for choice in itertools.product(NEW_TEMPLATES, NEW_PEOPLE, NEW_PLACES)]
    tagger = Tagger()
    before = f1(tagger.eval(), held_out)
    optimizer = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], lr=0.01)
    tagger.train()
    for _ in range(12):
        random.shuffle(training)
        for start in range(0, len(training), 16):
            optimizer.zero_grad()
            loss = tagger.loss(training[start : start + 16])
            loss.backward()
            optimizer.step()
    after = f1(tagger.eval(), held_out)
    print(f"F1 on new names in new sentences: {before:.2f} before, {after:.2f} after training; loss {loss.item():.3f}")
    assert before < 0.5
    assert after > 0.65


if __name__ == "__main__":
    main()
