import argparse
import gzip
import subprocess
import sys
from collections import Counter
from itertools import chain

import numpy as np
import pytest

from hf_elmo.cli import prepare as command
from hf_elmo.pretraining.corpus import Source, SpacySentences, read_documents
from hf_elmo.pretraining.prepare import prepare
from hf_elmo.pretraining.prepare_options import PrepareOptions
from hf_elmo.pretraining.shards import PreparedCorpus
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences, sentences_of

TEXT = "It was so. He didn't mind!\n\nThe long alto-\nrelief stood there, and the\nman was gone."


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(12):
        text = f"{TEXT} Number {number} ends here.\n" * 30
        (folder / f"{number:02d}.txt.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def run_command(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(argument) for argument in arguments]))


def test_shards_hold_what_spacy_gives_and_the_report_counts_it(texts, tmp_path):
    prepared = prepare([Source("t", str(texts), "wrapped")], tmp_path / "out")
    tokenise = SpacySentences()
    expected = [
        sentence
        for document in read_documents(Source("t", str(texts), "wrapped"))
        for sentence in tokenise(document.paragraphs())
    ]
    assert sentences_of(prepared, "train") == expected
    report = prepared.split_report("train")
    counted = Counter(word for sentence in expected for word in sentence)
    assert report["tokens"] == counted.total()
    assert report["sentences"] == len(expected)
    assert report["predictions_per_direction"] == counted.total() + len(expected)
    assert report["documents"] == 12
    assert dict(zip(prepared.words[3:], prepared.counts[3:].tolist(), strict=True)) == counted
    assert "spaCy" in prepared.report["tokeniser"]


def test_processes_change_nothing(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_elmo.pretraining.chunks._CHUNK_CHARACTERS", 3_000)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, processes in zip(folders, (1, 2), strict=True):
        options = PrepareOptions(processes=processes, heldout_share=0.3, shard_words=1_000)
        prepare([Source("t", str(texts))], folder, options=options)
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in folders[1].iterdir())
    assert len([name for name in names if name.startswith("train-")]) > 1
    for name in names:
        if name != "prepared.json":
            assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_held_out_documents_are_whole_and_apart(texts, tmp_path):
    prepared = prepare([Source("t", str(texts))], tmp_path / "out", options=PrepareOptions(heldout_share=0.3))

    def numbers(split: str) -> set[str]:
        spelled = sentences_of(prepared, split)
        return {words[1] for words in spelled if words[0] == "Number"}

    assert prepared.splits == ["train", "heldout-t"]
    assert numbers("train") | numbers("heldout-t") == {str(number) for number in range(12)}
    assert not numbers("train") & numbers("heldout-t")
    assert prepared.split_report("heldout-t")["documents"] == len(numbers("heldout-t"))


def test_oov_cut_words_and_sources_are_reported(tmp_path):
    train = [["a"] * 3 + ["b"] * 2 + ["c", "x" * 49, "y" * 48]]
    prepared = prepare_sentences(tmp_path, train, {"web": [["a", "new", "ж" * 25]]}, vocab_size=5)
    report = prepared.split_report("train")
    assert report["oov_tokens"] == 3
    assert report["oov_rate"] == pytest.approx(3 / 8)
    assert (report["cut_tokens"], report["cut_distinct_words"]) == (1, 1)
    assert report["sources"] == {"train": {"tokens": 8, "sentences": 1, "documents": 1, "times": 1, "share": 1.0}}
    held = prepared.split_report("heldout-web")
    assert (held["oov_tokens"], held["cut_tokens"]) == (2, 1)
    assert prepared.report["most_frequent_cut_words"] == ["x" * 49, "ж" * 25]
    assert prepared.words[-2:] == ["new", "ж" * 25]
    assert prepared.report["tokeniser"] == "tokenised sentences as given, split at white space"


def test_boundary_words_in_the_text_are_the_boundaries(tmp_path):
    prepared = prepare_sentences(tmp_path, [["a", "<S>", "</S>", "<UNK>"]])
    assert prepared.read_shard("train-00000.safetensors").words.tolist() == [3, 0, 1, 2]


def test_given_vocabulary_is_kept(tmp_path):
    (tmp_path / "v.txt").write_text("<S>\n</S>\n<UNK>\nrare\nabsent\n")
    prepared = prepare_sentences(tmp_path, [["often", "often", "rare"]], vocabulary=tmp_path / "v.txt")
    assert prepared.words == ["<S>", "</S>", "<UNK>", "rare", "absent", "often"]
    assert prepared.vocab_size == 5
    assert prepared.split_report("train")["oov_tokens"] == 2


def test_training_shards_mix_the_sources(tmp_path, monkeypatch):
    monkeypatch.setattr("hf_elmo.pretraining.chunks._CHUNK_CHARACTERS", 50)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} {name} {name}\n" * 400)
    sources = [Source(name, str(tmp_path / f"{name}.txt"), "sentences") for name in "ab"]
    prepared = prepare(sources, tmp_path / "out", options=PrepareOptions(shard_words=600))
    for shard in prepared.read_split("train"):
        share = np.mean(shard.words == 3)
        assert 0.1 < share < 0.9
    assert prepared.counts[3:].tolist() == [1200, 1200]


def test_a_source_is_read_as_often_as_it_says(tmp_path, monkeypatch):
    """Training text alone: what is held out of a source is held out once."""
    monkeypatch.setattr("hf_elmo.pretraining.chunks._CHUNK_CHARACTERS", 50)
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text(f"{name} {name} {name}\n" * 400)
    sources = [Source("a", str(tmp_path / "a.txt"), "sentences"), Source("b", str(tmp_path / "b.txt"), "sentences", 3)]
    options = PrepareOptions(heldout_share=0.2, document="line", shard_words=900)
    prepared = prepare(sources, tmp_path / "out", options=options)
    seen = Counter(chain.from_iterable(sentences_of(prepared, "train")))
    held = Counter(chain.from_iterable(sentences_of(prepared, "heldout-a") + sentences_of(prepared, "heldout-b")))
    assert seen == {"a": 1200 - held["a"], "b": 3 * (1200 - held["b"])}
    assert [prepared.counts[prepared.words.index(name)] for name in "ab"] == [seen["a"], seen["b"]]
    report = prepared.split_report("train")["sources"]
    assert (report["a"]["times"], report["a"]["tokens"]) == (1, seen["a"])
    assert (report["b"]["times"], report["b"]["tokens"]) == (3, seen["b"])
    for shard in prepared.read_split("train"):  # the copies do not lie together
        assert 0.4 < np.mean(shard.words == prepared.words.index("b")) < 1


def test_one_billion_word_folder_is_read_as_it_is(tmp_path):
    root = tmp_path / "1-billion-word"
    for folder, file in (
        ("training-monolingual.tokenized.shuffled", "news.en-00001-of-00100"),
        ("heldout-monolingual.tokenized.shuffled", "news.en.heldout-00000-of-00050"),
    ):
        (root / folder).mkdir(parents=True)
        (root / folder / file).write_text(f"{folder[0]} do n't .\n")
    prepared = prepare([Source("lm", str(root))], tmp_path / "out")
    assert sentences_of(prepared, "train") == [["t", "do", "n't", "."]]
    assert sentences_of(prepared, "heldout-lm") == [["h", "do", "n't", "."]]


def test_progress_reaches_the_end(texts, tmp_path, monkeypatch):
    monkeypatch.setattr("hf_elmo.pretraining.chunks._CHUNK_CHARACTERS", 3_000)
    seen = []
    prepared = prepare([Source("t", str(texts))], tmp_path / "out", progress=seen.append)
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert len(set(shares)) > 2
    assert shares[-1] == 1
    assert seen[-1].words == prepared.split_report("train")["tokens"]


class TestErrors:
    def test_missing_source(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="absent"):
            prepare([Source("t", str(tmp_path / "absent"))], tmp_path / "out")
        assert list(tmp_path.iterdir()) == []

    def test_empty_text(self, tmp_path):
        with pytest.raises(ValueError, match="no word to train on"):
            prepare_sentences(tmp_path, [[]])

    def test_empty_held_out_text(self, tmp_path):
        with pytest.raises(ValueError, match=r"no held-out word in .*empty\.txt"):
            prepare_sentences(tmp_path, [["a"]], {"empty": [[]]})

    def test_text_both_trained_on_and_held_out(self, tmp_path, texts):
        one_of_them = Source("h", str(texts / "03.txt.gz"))
        with pytest.raises(ValueError, match=r"03\.txt\.gz to train on and to hold out \(1 such\)"):
            prepare([Source("t", str(texts))], tmp_path / "out", heldout=[one_of_them])

    def test_no_document_held_out(self, tmp_path):
        with pytest.raises(ValueError, match=r"of 1 documents.*document="):
            prepare_sentences(tmp_path, [["a"]], heldout_share=1e-9)

    @pytest.mark.parametrize(
        "options",
        [
            {"heldout_share": 1.0},
            {"processes": 0},
            {"shard_words": 0},
            {"encoding_errors": "x"},
            {"vocab_size": 2},
        ],
    )
    def test_options_out_of_range(self, tmp_path, options):
        with pytest.raises(ValueError, match="expected"):
            prepare_sentences(tmp_path, [["a"]], **options)
        assert not (tmp_path / "prepared").exists()


class TestCommand:
    def test_prepares_and_reports(self, texts, tmp_path, capsys):
        (tmp_path / "held.txt").write_text("He was gone.\n")
        arguments = ["--train", f"t={texts}", "--heldout", f"h={tmp_path / 'held.txt'}", "--processes", 1]
        assert run_command(tmp_path / "out", *arguments, "--vocab-size", 10) == 0
        printed = capsys.readouterr().out
        prepared = PreparedCorpus.open(tmp_path / "out")
        assert prepared.vocab_size == 10
        assert f"train: {prepared.split_report('train')['tokens']:,} words" in printed
        assert "heldout-h: 4 words, 1 sentences, 1 documents" in printed

    def test_faults_are_one_line_and_status_two(self, tmp_path, capsys):
        assert run_command(tmp_path / "out", "--train", tmp_path / "absent") == 2
        lines = capsys.readouterr().err.strip().split("\n")
        assert len(lines) == 1
        assert lines[0].startswith("hf-elmo prepare:")

    def test_lines_as_documents(self, tmp_path):
        (tmp_path / "t.txt").write_text("".join(f"word{number} .\n" for number in range(200)))
        arguments = [
            "--train",
            f"t:sentences={tmp_path / 't.txt'}",
            "--heldout-share",
            0.2,
            "--document",
            "line",
        ]
        assert run_command(tmp_path / "out", *arguments, "--processes", 1) == 0
        prepared = PreparedCorpus.open(tmp_path / "out")
        held = prepared.split_report("heldout-t")["documents"]
        assert 20 <= held <= 60
        assert held + prepared.split_report("train")["documents"] == 200


def test_prepared_shards_are_read_without_spacy(tmp_path):
    prepare_sentences(tmp_path, [["a", "b"]] * 5)
    program = (
        "import sys; sys.modules['spacy'] = None\n"
        "from hf_elmo.pretraining.shards import PreparedCorpus\n"
        "from hf_elmo.pretraining.streams import StreamBatches\n"
        "prepared = PreparedCorpus.open(sys.argv[1])\n"
        "print(next(StreamBatches(prepared, batch_size=2, unroll_steps=3))['labels'].tolist())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "prepared")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[[4, 5, 2], [4, 5, 2]]"
