"""What stands in a dump, against NumPy; in parts so small that there are several."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hf_elmo.dump import Dumped, DumpOptions, Shards, dump
from hf_elmo.text_input import TextInput
from hf_elmo.text_progress import Progress
from tests.hf_elmo.dump.dumps import (
    CHOOSE,
    FORMATS,
    NAMES,
    SENTENCES,
    SMALL_PARTS,
    contents,
    expected,
    many_sentences,
    names_in,
    read_back,
    text_of,
)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("layers", CHOOSE)
def test_vectors_are_numpys(model, tmp_path, format, layers):
    out = tmp_path / NAMES[format]
    dumped = dump(SENTENCES, out, model=model, options=replace(SMALL_PARTS, layers=layers))
    assert dumped == Dumped(sentences=7, words=25, cut_words=1)
    assert names_in(tmp_path) == [out.name]
    found = read_back(out)
    wanted = expected(SENTENCES, layers)
    assert len(found) == len(wanted)
    for (words, vectors), right, sentence in zip(found, wanted, SENTENCES, strict=True):
        assert vectors.dtype == np.float32
        assert vectors.shape == right.shape
        np.testing.assert_allclose(vectors, right, atol=1e-5)
        assert words is None or words == sentence


@pytest.mark.parametrize("format", FORMATS)
def test_half_precision_rounds_the_same_numbers(model, tmp_path, format):
    name = NAMES[format]
    for dtype in ("float16", "float32"):
        (tmp_path / dtype).mkdir()
        dump(SENTENCES, tmp_path / dtype / name, model=model, options=DumpOptions(layers="all", dtype=dtype))
    halves, singles = (read_back(tmp_path / dtype / name) for dtype in ("float16", "float32"))
    for (_, half), (_, single) in zip(halves, singles, strict=True):
        assert half.dtype == np.float16
        np.testing.assert_array_equal(half, single.astype(np.float16))


def test_hdf5_has_the_layout_of_allennlps_command(model, tmp_path):
    dump(SENTENCES, tmp_path / "v.h5", model=model)
    with h5py.File(tmp_path / "v.h5") as file:
        assert set(file) == {*map(str, range(len(SENTENCES))), "sentence_to_index"}
        assert file["sentence_to_index"].shape == (1,)
        index = json.loads(file["sentence_to_index"][0])
        assert file["0"].compression is None
    assert index[" ".join(SENTENCES[1])] == "1"
    assert index[" ".join(SENTENCES[0])] == "5"  # of a repeated sentence the last
    assert index[""] == "2"
    assert len(index) == len(SENTENCES) - 1


def test_hdf5_without_sentences(model, tmp_path):
    dump(SENTENCES, tmp_path / "v.h5", model=model, options=DumpOptions(with_sentences=False))
    with h5py.File(tmp_path / "v.h5") as file:
        assert set(file) == set(map(str, range(len(SENTENCES))))


def test_parquet_has_a_row_group_a_part(model, tmp_path):
    dump(SENTENCES, tmp_path / "v.parquet", model=model, options=replace(SMALL_PARTS, dtype="float16"))
    file = pq.ParquetFile(tmp_path / "v.parquet")
    assert file.num_row_groups > 1
    assert file.schema_arrow.names == ["sentence", "words", "shape", "vectors"]
    assert file.schema_arrow.field("vectors").type == pa.list_(pa.float16())


def test_shards_by_sentence(model, tmp_path):
    dump(SENTENCES, tmp_path / "v", model=model, options=replace(SMALL_PARTS, layers="all"))
    shards = Shards(tmp_path / "v")
    assert len(list((tmp_path / "v").glob("*.safetensors"))) > 1
    assert len(shards) == len(SENTENCES)
    for number, (words, right) in enumerate(zip(SENTENCES, expected(SENTENCES, "all"), strict=True)):
        assert shards.words(number) == words
        np.testing.assert_allclose(shards[number], right, atol=1e-5)
    assert len(list(shards)) == len(SENTENCES)
    for number in (-1, len(SENTENCES)):
        with pytest.raises(IndexError, match="expected 0 to 6"):
            shards[number]


def test_shards_of_other_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected a folder made by `hf-elmo embed`"):
        Shards(tmp_path)
    (tmp_path / "index.json").write_text('{"info": 3}')
    with pytest.raises(ValueError, match="is damaged"):
        Shards(tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_parts_make_no_difference_but_their_number(model, tmp_path, format):
    sentences = many_sentences(60)
    for size, part_megabytes in (("small", 0.003), ("large", 100)):
        (tmp_path / size).mkdir()
        options = DumpOptions(part_megabytes=part_megabytes)
        dump(sentences, tmp_path / size / NAMES[format], model=model, options=options)
    small, large = (read_back(tmp_path / size / NAMES[format]) for size in ("small", "large"))
    for (words, one), (same_words, other), sentence in zip(small, large, sentences, strict=True):
        assert words == same_words
        assert words is None or words == sentence
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_text_makes_an_empty_dump(model, tmp_path, format):
    assert dump([], tmp_path / NAMES[format], model=model).sentences == 0
    assert read_back(tmp_path / NAMES[format]) == []


@pytest.mark.parametrize("format", FORMATS)
def test_sentences_without_words_alone(model, tmp_path, format):
    dump([[], []], tmp_path / NAMES[format], model=model, options=DumpOptions(layers="all"))
    assert [vectors.shape for _, vectors in read_back(tmp_path / NAMES[format])] == [(3, 0, 32)] * 2


def test_the_same_call_writes_the_same_bytes(model, tmp_path):
    for name in NAMES.values():
        for folder in ("one", "other"):
            (tmp_path / folder).mkdir(exist_ok=True)
            dump(iter(SENTENCES), tmp_path / folder / name, model=model, options=SMALL_PARTS)
        assert contents(tmp_path / "one" / name) == contents(tmp_path / "other" / name)


def test_a_model_by_its_folder_a_text_by_its_file(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text(text_of(SENTENCES), encoding="utf-8")
    dump(TextInput(tmp_path / "text.txt"), tmp_path / "new" / "v", model=tmp_path / "model")
    for number, right in enumerate(expected(SENTENCES, "mix")):
        np.testing.assert_allclose(Shards(tmp_path / "new" / "v")[number], right, atol=1e-5)


def test_progress_tells_words_and_the_share_of_the_file(model, tmp_path):
    sentences = many_sentences(60)
    (tmp_path / "text.txt").write_text(text_of(sentences), encoding="utf-8")
    steps: list[Progress] = []
    options = DumpOptions(part_megabytes=0.003)
    dump(TextInput(tmp_path / "text.txt"), tmp_path / "v", model=model, options=options, progress=steps.append)
    words = [step.words for step in steps]
    assert words == sorted(set(words))
    assert words[-1] == sum(map(len, sentences))
    shares = [step.share for step in steps if step.share is not None]
    assert len(shares) == len(steps)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    steps.clear()
    dump(sentences, tmp_path / "w", model=model, progress=steps.append)
    assert {step.share for step in steps} == {None}


def test_only_a_part_and_a_sentence_are_read_ahead(model, tmp_path):
    """Of a text without end: what is read and not written stays within one part."""
    read = 0
    ahead = []
    parts = tmp_path / ".v.parts" / "parts"

    def endless():
        nonlocal read
        while True:
            read += 1
            if parts.is_dir():
                written = sum(1 for _ in parts.glob("*.safetensors")) * 10
                ahead.append(read - written)
                if written > 100:
                    raise KeyboardInterrupt
            yield ["a", "b"]

    with pytest.raises(KeyboardInterrupt):
        dump(endless(), tmp_path / "v", model=model, options=DumpOptions(part_megabytes=20 * 128 / 1e6))
    assert max(ahead) <= 11
    assert names_in(tmp_path) == [".v.parts"]


def test_sentences_may_change_after_they_were_read(model, tmp_path):
    """Python users often fill one list again and again."""

    def reused():
        words: list[str] = []
        for sentence in SENTENCES:
            words[:] = sentence
            yield words

    dump(reused(), tmp_path / "v", model=model)
    assert [words for words, _ in read_back(tmp_path / "v")] == SENTENCES
    assert [vectors.shape[0] for _, vectors in read_back(tmp_path / "v")] == [len(words) for words in SENTENCES]


def test_memory_does_not_grow_with_the_text(model, tmp_path):
    import tracemalloc

    def peak(count: int, name: str) -> int:
        sentences = ([f"w{i % 50}"] * 8 for i in range(count))
        tracemalloc.start()
        options = DumpOptions(part_megabytes=0.1, with_sentences=False)
        dump(sentences, tmp_path / name, model=model, options=options)
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    for format, name in NAMES.items():
        few = peak(300, f"few-{name}")
        many = peak(2400, f"many-{name}")
        # 2.15 MB of vectors more; an entry of a shard's index is 100 bytes.
        assert many - few < 200_000, format


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("exists", [False, True])
def test_a_link_stays_and_what_it_names_is_written(model, tmp_path, format, exists):
    name = NAMES[format]
    real = tmp_path / "disk" / name
    real.parent.mkdir()
    link = tmp_path / f"link-{name}"
    link.symlink_to(real)
    if exists:
        dump([["old"]], real, model=model)
    dump(SENTENCES, link, model=model, options=replace(SMALL_PARTS, overwrite=exists))
    assert link.readlink() == real
    assert names_in(tmp_path) == ["disk", link.name]
    assert names_in(real.parent) == [name]
    assert len(read_back(real)) == len(SENTENCES)


def test_into_the_working_directory(model, tmp_path, monkeypatch):
    (tmp_path / "vectors").mkdir()
    monkeypatch.chdir(tmp_path / "vectors")
    dump(SENTENCES, ".", model=model)
    assert len(read_back(tmp_path / "vectors")) == len(SENTENCES)
    assert names_in(tmp_path) == ["vectors"]
