import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.cli.main import main
from tests.spacy_elmo.toy_tasks import make_examples


@pytest.fixture
def given(tmp_path, tiny_folder):
    docs = [example.reference for example in make_examples(spacy.blank("en"), count=20)]
    for name, part in (("train", docs[:15]), ("dev", docs[15:])):
        DocBin(docs=part, store_user_data=True).to_disk(tmp_path / f"{name}.spacy")
    assert main(["init-config", "--model", str(tiny_folder), "--output", str(tmp_path / "c.cfg")]) == 0
    return [str(tmp_path / name) for name in ("c.cfg", "train.spacy", "dev.spacy")]


def test_it_fills_a_folder_and_says_so(given, tmp_path, capsys):
    folder = tmp_path / "cache"
    assert main(["cache", *given, "--cache-dir", str(folder)]) == 0
    printed = capsys.readouterr()
    assert "train.spacy: 15 docs" in printed.out
    assert "dev.spacy: 5 docs" in printed.out
    assert "20 sentences computed, 0 were there" in printed.out
    assert "15/15" in printed.err
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert f"{size / 1e6:.1f} MB" in printed.out
    assert main(["cache", *given, "--cache-dir", str(folder)]) == 0
    assert "0 sentences computed, 20 were there" in capsys.readouterr().out


def test_options_reach_the_cache(given, tmp_path, capsys):
    assert main(["cache", *given, "--cache-dir", str(tmp_path / "a")]) == 0
    assert main(["cache", *given, "--cache-dir", str(tmp_path / "b"), "--store-dtype", "float16"]) == 0
    whole, half = (next((tmp_path / name).glob("*/*.layers")).stat().st_size for name in "ab")
    assert whole == 2 * half
    assert main(["cache", *given, "--cache-dir", str(tmp_path / "c"), "--max-gigabytes", "1e-5"]) == 0
    assert sum(path.stat().st_size for path in (tmp_path / "c").rglob("*") if path.is_file()) <= 10_000


def test_what_is_missing_is_named(given, tmp_path, capsys):
    assert main(["cache", given[0], str(tmp_path / "none.spacy"), "--cache-dir", str(tmp_path / "cache")]) == 2
    assert "none.spacy: got no such file" in capsys.readouterr().err
