"""The programs of docs/huggingface.md run as they stand there, in their order."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest
import transformers

import hf_elmo
from hf_elmo import ElmoConfig, ElmoTokenizer
from hf_elmo.auto_map import SHIM, model_auto_map
from tests.hf_elmo.models import WORDS, random_model

PAGE = (Path(__file__).parents[1] / "docs" / "huggingface.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)
PROGRAMS = [block for _, block in BLOCKS]


def programs(*parts: str) -> list[str]:
    """Those that hold one of the parts."""
    return [program for program in PROGRAMS if any(part in program for part in parts)]


APART = programs("Trainer(", "SentenceTransformer(", "torch.export")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's `my-elmo` lies."""
    folder = tmp_path_factory.mktemp("page")
    vocabulary = ["<S>", "</S>", "<UNK>", *(word for word in WORDS if word.isalpha())]
    random_model(vocab_size=len(vocabulary) + 1).save_pretrained(folder / "my-elmo")
    ElmoTokenizer(vocabulary).save_pretrained(folder / "my-elmo")
    return folder


@pytest.fixture(scope="module")
def names(place: Path) -> dict[str, Any]:
    """What the programs know after those that need nothing but transformers."""
    known: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for program in PROGRAMS:
            if program not in APART:
                exec(compile(program, "docs/huggingface.md", "exec"), known)
    return known


@pytest.fixture
def run(place: Path, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one of the others after them."""
    monkeypatch.chdir(place)

    def go(part: str) -> dict[str, Any]:
        (program,) = programs(part)
        known = dict(names)
        exec(compile(program, "docs/huggingface.md", "exec"), known)
        return known

    return go


def test_all_are_programs() -> None:
    assert {language for language, _ in BLOCKS} == {"python"}
    assert len(APART) == 3


def test_loading_and_vectors(names: dict[str, Any]) -> None:
    assert names["output"].last_hidden_state.shape == (2, 9, 12)
    assert [layer.shape for layer in names["output"].hidden_states] == [(2, 9, 12)] * 3
    assert [vector.shape for vector in names["vectors"]] == [(7, 12), (2, 12)]
    assert type(names["model"]) is hf_elmo.ElmoModel


def test_heads_and_pipelines(names: dict[str, Any]) -> None:
    paper = names["paper"]
    assert paper.crf is not None
    assert paper.output_scalar_mix is not None
    assert all(p.requires_grad for p in names["tuned"].parameters())
    assert names["sentiment"].config.pooling == "biattention"
    assert len(names["features"][0]) == 6
    assert names["context"].find(names["answer"]) >= 0
    assert names["answer"]
    assert 1 <= names["end"] - names["start"] + 1 <= 16


@pytest.mark.slow
def test_trainer(run: Any, place: Path) -> None:
    pytest.importorskip("datasets", reason="needs the extra: pip install 'spacy-elmo[train]'")
    known = run("Trainer(")
    assert known["trainer"].state.log_history[-1]["train_loss"] < 1
    loaded = transformers.AutoModelForTokenClassification.from_pretrained(place / "my-tagger")
    assert type(loaded) is hf_elmo.ElmoForTokenClassification
    assert (place / "my-tagger" / SHIM).is_file()


@pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="needs the extra: pip install 'spacy-elmo[sentence]'",
)
def test_sentence_transformers(run: Any, place: Path) -> None:
    assert run("SentenceTransformer(")["sentences"].shape == (2, 12)
    assert (place / "my-encoder" / "modules.json").is_file()


@pytest.mark.slow
def test_export(run: Any, place: Path) -> None:
    run("torch.export")
    assert (place / "elmo.pt2").stat().st_size > 1000


def _table(after: str) -> list[list[str]]:
    lines = PAGE[PAGE.index(after) :].splitlines()
    rows = [line for line in lines[: lines.index("", 2) if "" in lines[2:] else None] if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


def test_options_exist_and_have_the_listed_defaults() -> None:
    rows = _table("| option | default | of | meaning |")
    config = ElmoConfig()
    assert len(rows) == 13
    for name, default, _, _ in rows:
        value = getattr(config, name.strip("`"))
        assert default == f'`"{value}"`' if isinstance(value, str) else default == f"`{value!r}`"


def test_heads_and_their_auto_classes_are_those_of_the_package() -> None:
    rows = _table("| class | auto class | task's network |")
    listed = {auto.strip("`"): f"hf_elmo_classes.{own.strip('`')}" for own, auto, _ in rows}
    others = {"AutoConfig", "AutoModel", "AutoTokenizer"}
    assert listed == {auto: own for auto, own in model_auto_map().items() if auto not in others}


def test_messages_are_those_of_the_code() -> None:
    """Every fixed part of a message that the last table names stands in the source."""
    package = Path(hf_elmo.__file__).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)
    rows = _table("| message | what to do |")
    assert len(rows) == 6
    for message, _ in rows:
        for part in re.split(r"'[^']*'", message.strip("`")):
            assert part.strip(" ;") in source, part


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) < 250
