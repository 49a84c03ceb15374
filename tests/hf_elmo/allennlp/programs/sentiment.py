"""A sentence classifier: the mean of the sentence's ELMo vectors, one linear layer."""

import itertools

import torch
from torch import Tensor, nn

from hf_elmo.allennlp import Elmo, batch_to_ids

ADJECTIVES = {
    1: ["wonderful", "lovely", "excellent", "delightful", "charming", "beautiful", "brilliant", "splendid"],
    0: ["terrible", "horrible", "dreadful", "stupid", "ugly", "tedious", "awful", "miserable"],
}
NOUNS = ["play", "story", "evening", "song", "performance", "speech"]
TEMPLATES = [
    "the {noun} was {adjective} from beginning to end",
    "what {adjective} {noun} we had !",
    "everybody found the {noun} {adjective}",
    "such a {adjective} {noun} , they said",
]
NEW_TEMPLATES = ["i thought it a {adjective} {noun} indeed", "her {noun} was rather {adjective} , i think"]


def texts(templates: list[str]) -> tuple[list[list[str]], Tensor]:
    """Every adjective once in every template, and whether it is a kind one."""
    nouns = itertools.cycle(NOUNS)
    examples = [
        (template.format(noun=next(nouns), adjective=adjective).split(), label)
        for template in templates
        for label, adjectives in ADJECTIVES.items()
        for adjective in adjectives
    ]
    return [words for words, _ in examples], torch.tensor([label for _, label in examples])


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.elmo = Elmo(None, None, num_output_representations=1, dropout=0.2)
        self.output = nn.Linear(self.elmo.get_output_dim(), 2)

    def forward(self, sentences: list[list[str]]) -> Tensor:
        output = self.elmo(batch_to_ids(sentences))
        vectors, mask = output["elmo_representations"][0], output["mask"]
        lengths = mask.sum(dim=1, keepdim=True)
        return self.output(vectors.sum(dim=1) / lengths)


def main() -> None:
    torch.manual_seed(0)
    sentences, labels = texts(TEMPLATES)
    new_sentences, new_labels = texts(NEW_TEMPLATES)
    classifier = Classifier()
    before = classifier.elmo.scalar_mix_0.gamma.item()
    trained = [parameter for parameter in classifier.parameters() if parameter.requires_grad]
    assert sum(parameter.numel() for parameter in trained) == 4 + 2 * 256 + 2  # the mix and the linear layer
    optimizer = torch.optim.Adam(trained, lr=0.02)
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(classifier(sentences), labels)
        loss.backward()
        optimizer.step()

    classifier.eval()
    with torch.no_grad():
        right = (classifier(new_sentences).argmax(dim=1) == new_labels).float().mean().item()
    print(f"loss {loss.item():.3f}; right in {right:.0%} of {len(new_labels)} new sentences")
    assert loss.item() < 0.5  # with dropout; guessing has 0.69
    assert right > 0.8
    assert classifier.elmo.scalar_mix_0.gamma.item() != before


if __name__ == "__main__":
    main()
