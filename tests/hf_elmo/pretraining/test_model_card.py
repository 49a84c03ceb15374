import re

import pytest
import yaml
from huggingface_hub import ModelCard

from hf_elmo import ElmoConfig, ElmoModel, ElmoTokenizer
from hf_elmo.pretraining.model_card import carried_card, model_card, named_for_hub
from tests.hf_elmo.models import tiny_config

REPORT = {
    "tokeniser": 'spaCy 3.8 blank("en") with sentencizer',
    "vocab_size": 20_000,
    "splits": {
        "train": {
            "tokens": 40_000_000,
            "sentences": 2_000_000,
            "predictions_per_direction": 42_000_000,
            "oov_rate": 0.026,
            "sources": {
                "novels": {"tokens": 30_000_000, "sentences": 1_500_000, "share": 0.75},
                "web|mail": {"tokens": 10_000_000, "sentences": 500_000, "share": 0.25},
            },
        },
        "heldout-novels": {"tokens": 700_000, "oov_rate": 0.0331, "sources": {}},
        "heldout-unseen": {"tokens": 5, "oov_rate": 0.5, "sources": {}},
    },
}
METRICS = {
    "eval_novels_perplexity": 81.256,
    "eval_novels_forward_perplexity": 80.0,
    "eval_novels_backward_perplexity": 82.5,
}


def card(config: ElmoConfig | None = None, **changes) -> str:
    values = {
        "name": "some/elmo",
        "seconds": 9_000,
        "hardware": "2 cores",
        "words_per_update": 640,
        "settings": {"optimiser": "adagrad"},
        "licences": {"novels": "public domain"},
        "model_licence": "apache-2.0",
    }
    log = [{"step": 500, "loss": 5.0}, {"step": 65_625, "loss": 4.0}]
    return model_card(config or ElmoConfig(vocab_size=20_001), REPORT, log, METRICS, **{**values, **changes})


def rows(text: str, section: str) -> list[list[str]]:
    """The cells of the table of a section."""
    part = text.split(f"## {section}\n", maxsplit=1)[1].split("\n## ", maxsplit=1)[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_metadata_is_what_the_hub_reads():
    assert yaml.safe_load(card().split("---\n")[1]) == {
        "language": "en",
        "license": "apache-2.0",
        "library_name": "transformers",
        "tags": ["elmo", "bilm", "hf_elmo", "spacy", "word-embeddings"],
        "pipeline_tag": "feature-extraction",
        "metrics": ["perplexity"],
    }
    assert ModelCard(card()).data.license == "apache-2.0"
    assert "license" not in ModelCard(card(model_licence=None)).data.to_dict()
    assert ModelCard(card(language="pt")).data.language == "pt"


def test_model_and_data():
    text = card()
    assert "93,600,864 parameters" in text
    assert "2 LSTM layers in each direction (4096 cells projected to\n512), vectors of 1024" in text
    assert "40,000,000 words in 2,000,000 sentences" in text
    assert "2.6 % of the training text" in text
    header, rule, *sources = rows(text, "Training data")
    assert header == ["source", "words", "sentences", "share", "licence"]
    assert set(rule) == {"---"}
    assert sources == [
        ["novels", "30,000,000", "1,500,000", "75.0 %", "public domain"],
        [r"web\|mail", "10,000,000", "500,000", "25.0 %", "not stated"],
    ]


def test_training():
    text = card()
    assert "65,625 updates of 640 words in each direction: 42,000,000 words, 1.00 passes" in text
    assert rows(text, "Training")[2:] == [["optimiser", "adagrad"]]
    assert "2.5 hours of wall-clock time on 2 cores" in text


@pytest.mark.parametrize(("seconds", "expected"), [(31, "31 seconds"), (600, "10 minutes"), (360_000, "100.0 hours")])
def test_time(seconds, expected):
    assert f"\n{expected} of wall-clock time" in card(seconds=seconds)


def test_perplexity():
    header, _, *texts = rows(card(), "Perplexity on held-out text")
    assert header == ["text", "words", "`<UNK>`", "average", "forward", "backward", "licence"]
    assert texts == [["novels", "700,000", "3.3 %", "81.26", "80.00", "82.50", "public domain"]]
    assert "None was held out" in model_card(
        ElmoConfig(), REPORT, [], {}, name="x", seconds=0, hardware="x", words_per_update=1
    )


def test_the_figure():
    assert "![" not in card()
    text = card(figure="loss_curve.png", figure_words=20_000).split("## Training\n")[1].split("\n## ")[0]
    assert "\n\n![Training loss and held-out perplexity over the words read](loss_curve.png)\n\n" in text
    assert "of about the first 20,000 words of each text" in text
    assert "of the whole texts" in card(figure="loss_curve.png")


def test_on_the_hub_the_programs_load_it_from_there():
    text = named_for_hub(card(name="en"), "user/elmo")  # a name that is also the language's code
    assert 'AutoTokenizer.from_pretrained("user/elmo"), AutoModel.from_pretrained("user/elmo")' in text
    assert 'config={"model": "user/elmo"}' in text
    assert 'spacy.blank("en")' in text
    assert '`"user/elmo"` is this folder' in text
    assert "# en\n" in text
    assert named_for_hub("of somebody else", "user/elmo") == "of somebody else"


def test_the_programs_in_the_card_run(tmp_path):
    folder = tmp_path / "model"
    ElmoModel(tiny_config(vocab_size=4)).save_pretrained(folder)
    ElmoTokenizer().save_pretrained(folder)
    programs = re.findall(r"```python\n(.*?)```", card(tiny_config(), name=str(folder)), re.S)
    shapes = []
    for program in programs:
        names = {}
        exec(program, names)
        shapes.append(tuple(names["vectors"].shape))
    assert shapes == [(1, 6, 12), (4, 12)]


class TestCarried:
    SECTION = "## Warm state\n\nNew."

    def test_a_card_of_another_kind_gets_a_section(self):
        assert carried_card("# Mine\n\nText.\n", "new", section=self.SECTION) == f"# Mine\n\nText.\n\n{self.SECTION}\n"
        assert carried_card("", "new", section=self.SECTION) == f"{self.SECTION}\n"

    def test_the_section_is_replaced(self):
        card = "# Mine\n\n## Warm state\n\nOld.\n\n## More\n\nText.\n"
        assert carried_card(card, "new", section=self.SECTION) == card.replace("Old.", "New.")
        last = "# Mine\n\n## Warm state\n\nOld.\n"
        assert carried_card(last, "new", section=self.SECTION) == last.replace("Old.", "New.")

    def test_programs_load_the_new_model(self):
        card = '# lm\n\nfrom_pretrained("user/lm")\n'
        carried = carried_card(card, "new", old_name="user/lm", section=self.SECTION)
        assert carried.startswith('# new\n\nfrom_pretrained("new")\n')
