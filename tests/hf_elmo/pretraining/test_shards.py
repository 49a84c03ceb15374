import json
import stat

import numpy as np
import pytest

from hf_elmo.pretraining.shards import PreparedCorpus, ShardWriter, written_beside
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

SENTENCES = [["a", "b"], ["a", "c", "a"], ["a", "b", "d"]]


@pytest.fixture
def prepared(tmp_path) -> PreparedCorpus:
    return prepare_sentences(tmp_path, SENTENCES, vocab_size=5)


def test_vocabulary_is_the_head_of_the_table(prepared):
    assert prepared.words == ["<S>", "</S>", "<UNK>", "a", "b", "c", "d"]
    assert prepared.counts.tolist() == [0, 0, 0, 4, 2, 1, 1]
    assert prepared.vocabulary() == prepared.words[:5]
    assert prepared.vocabulary(6) == prepared.words[:6]
    assert (prepared.path / "vocab.txt").read_text().split("\n") == [*prepared.words[:5], ""]


@pytest.mark.parametrize("size", [3, 8])
def test_impossible_vocabulary_sizes(prepared, size):
    with pytest.raises(ValueError, match=rf"vocab_size {size} .*expected 4 to 7"):
        prepared.vocabulary(size)


def test_unknown_split_names_those_there_are(prepared):
    with pytest.raises(ValueError, match="got split 'test', expected one of train"):
        prepared.shard_files("test")


def test_shard_contents(prepared):
    shard = prepared.read_shard("train-00000.safetensors")
    assert shard.words.dtype == np.int32
    assert shard.offsets.dtype == np.int64
    assert shard.words.tolist() == [3, 4, 3, 5, 3, 3, 4, 6]
    assert shard.offsets.tolist() == [0, 2, 5, 8]


def test_files_can_be_read_by_whoever_can_read_the_folder(prepared):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in prepared.path.iterdir()}
    assert len(set(modes.values())) == 1, modes


class TestOpening:
    def test_no_folder(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="hf-elmo prepare"):
            PreparedCorpus.open(tmp_path / "absent")

    def test_other_folder(self, tmp_path):
        with pytest.raises(ValueError, match=r"without prepared\.json"):
            PreparedCorpus.open(tmp_path)

    def test_another_word_table(self, prepared):
        with (prepared.path / "words.txt").open("a") as file:
            file.write("extra\n")
        with pytest.raises(ValueError, match=r"words\.txt: got a file with SHA-256"):
            PreparedCorpus.open(prepared.path)

    def test_missing_shard(self, prepared):
        (prepared.path / "train-00000.safetensors").unlink()
        with pytest.raises(FileNotFoundError, match="train-00000"):
            PreparedCorpus.open(prepared.path)

    def test_another_layout_version(self, prepared):
        report = json.loads((prepared.path / "prepared.json").read_text())
        (prepared.path / "prepared.json").write_text(json.dumps({**report, "layout_version": 99}))
        with pytest.raises(ValueError, match="got layout version 99, expected 1"):
            PreparedCorpus.open(prepared.path)

    def test_damaged_shard(self, prepared):
        (prepared.path / "train-00000.safetensors").write_bytes(b"no tensors")
        with pytest.raises(ValueError, match="cannot be read as a shard"):
            prepared.read_shard("train-00000.safetensors")

    def test_shard_of_another_table(self, prepared):
        writer = ShardWriter(prepared.path, "train", shard_words=10)
        writer.add(np.array([99]), np.array([1]))
        writer.flush()
        with pytest.raises(ValueError, match="got row 99, expected rows below 7"):
            prepared.read_shard("train-00000.safetensors")


class TestWriting:
    def test_shards_are_closed_when_full(self, tmp_path):
        writer = ShardWriter(tmp_path, "train", shard_words=3)
        for _ in range(5):
            writer.add(np.array([3, 4]), np.array([2]))
        writer.flush()
        assert writer.files == [f"train-0000{number}.safetensors" for number in range(3)]

    def test_nothing_is_left_of_a_failure(self, tmp_path):
        def fail() -> None:
            with written_beside(tmp_path / "out") as folder:
                (folder / "x").write_text("x")
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert list(tmp_path.iterdir()) == []

    def test_what_is_there_stays(self, tmp_path):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine").write_text("mine")
        for overwrite in (False, True):
            with (
                pytest.raises(FileExistsError, match="is there already"),
                written_beside(tmp_path / "out", overwrite=overwrite),
            ):
                pass
        assert (tmp_path / "out" / "mine").read_text() == "mine"

    def test_a_prepared_folder_can_be_replaced(self, prepared):
        with written_beside(prepared.path, overwrite=True) as folder:
            (folder / "new").write_text("")
        assert [path.name for path in prepared.path.iterdir()] == ["new"]
