"""What cannot be dumped is refused in a line, and leaves nothing behind."""

import builtins
from dataclasses import replace

import pytest
import torch

from hf_elmo import ElmoForTokenClassification
from hf_elmo.dump import DumpOptions, dump
from hf_elmo.dump.layers import parse_layers
from tests.hf_elmo.dump.dumps import NAMES, SENTENCES, SMALL_PARTS, contents, names_in
from tests.hf_elmo.models import random_head, random_model


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([["fine"], ["a", "b\ud800"]], ValueError, r"sentence 1: word 1 is 'b\\ud800'"),
        ([["fine"], ["a", 3]], TypeError, "sentence 1: word 1 is 3"),
        ([["fine"], "not words"], TypeError, "sentence 1: got the string 'not words'"),
        ([["fine"]] * 30 + [[None]], TypeError, "sentence 30: word 0 is None"),
    ],
)
def test_words_that_are_none(model, tmp_path, sentences, error, message):
    with pytest.raises(error, match=message):
        dump(sentences, tmp_path / "v.h5", model=model)
    assert names_in(tmp_path) == []


def test_after_some_parts_these_are_kept(model, tmp_path):
    with pytest.raises(ValueError, match=r"sentence 7: word 0"):
        dump([*SENTENCES, ["\udfff"]], tmp_path / "v.h5", model=model, options=SMALL_PARTS)
    assert names_in(tmp_path) == [".v.h5.parts"]
    dump(SENTENCES, tmp_path / "v.h5", model=model, options=replace(SMALL_PARTS, resume=True))
    assert names_in(tmp_path) == ["v.h5"]


@pytest.mark.parametrize("layers", ["bottom", (0, 3), (-1,), (), (True,)])
def test_layers_that_are_not_there(model, tmp_path, layers):
    with pytest.raises(ValueError, match=r"layers: got .*; expected all, top, average, mix.* to 2 \(top\)"):
        dump(SENTENCES, tmp_path / "v.h5", model=model, options=DumpOptions(layers=layers))
    assert names_in(tmp_path) == []


def test_layers_as_they_are_written():
    assert parse_layers("mix") == "mix"
    assert parse_layers("0, 2") == (0, 2)
    assert parse_layers("1") == (1,)
    for text in ("", "bottom", "1,", "-1", "0-2", "²"):
        with pytest.raises(ValueError, match="expected all, top, average, mix, or numbers of layers"):
            parse_layers(text)


@pytest.mark.parametrize("name", NAMES.values())
def test_what_is_there_stays(model, tmp_path, name):
    out = tmp_path / name
    dump(SENTENCES[:2], out, model=model)
    before = contents(out)
    with pytest.raises(FileExistsError, match="is there already; choose another name, or replace it with --overwrite"):
        dump(SENTENCES, out, model=model)
    assert contents(out) == before
    dump(SENTENCES, out, model=model, options=DumpOptions(overwrite=True))
    assert contents(out) != before
    assert names_in(tmp_path) == [name]


def test_a_folder_of_something_else_is_never_replaced(model, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    for options in (DumpOptions(), DumpOptions(overwrite=True), DumpOptions(overwrite=True, format="hdf5")):
        with pytest.raises(FileExistsError, match="is there already and is not"):
            dump(SENTENCES, tmp_path / "home", model=model, options=options)
    (tmp_path / "file").write_text("dear")
    with pytest.raises(FileExistsError, match="is not a folder of `hf-elmo embed` to replace"):
        dump(SENTENCES, tmp_path / "file", model=model, options=DumpOptions(overwrite=True))
    assert names_in(tmp_path) == ["file", "home"]
    assert names_in(tmp_path / "home") == ["letter.txt"]


def test_an_empty_folder_may_become_a_dump(model, tmp_path):
    (tmp_path / "v").mkdir()
    dump(SENTENCES, tmp_path / "v", model=model)
    assert names_in(tmp_path) == ["v"]


@pytest.mark.parametrize("name", ["v.safetensors", "v.npz", "v.v2"])
def test_suffixes_that_say_nothing(model, tmp_path, name):
    with pytest.raises(ValueError, match=r"ends with \.hdf5, \.h5 or \.parquet, or one without a suffix"):
        dump(SENTENCES, tmp_path / name, model=model)
    dump(SENTENCES, tmp_path / name, model=model, options=DumpOptions(format="safetensors"))
    assert (tmp_path / name / "index.json").is_file()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"dtype": "int8"}, "dtype: got 'int8'; expected one of float32, float16"),
        ({"format": "npz"}, "format: got 'npz'; expected one of hdf5, safetensors, parquet"),
        ({"engine": "spark"}, "engine: got 'spark'; expected one of local, ray"),
        ({"part_megabytes": 0}, "part_megabytes: got 0; expected more than 0"),
        ({"part_megabytes": float("nan")}, "part_megabytes: got nan"),
        ({"max_words_per_batch": 0}, "max_words_per_batch: got 0; expected 1 or more"),
        ({"engine": "ray", "workers": 0}, "workers: got 0; expected 1 or more"),
        ({"workers": 2}, "workers: got 2; expected none"),
    ],
)
def test_options_out_of_range(option, message):
    with pytest.raises(ValueError, match=message):
        DumpOptions(**option)


def test_a_device_that_is_not_there(model, tmp_path):
    with pytest.raises(ValueError, match="device: got 'nonsense', which cannot be used here"):
        dump(SENTENCES, tmp_path / "v", model=model, options=DumpOptions(device="nonsense"))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("value", "dtype"), [(1e6, "float16"), (float("nan"), "float32")])
def test_numbers_that_cannot_be_stored(tmp_path, value, dtype):
    model = random_model()
    with torch.no_grad():
        assert model.scalar_mix is not None
        model.scalar_mix.gamma.fill_(value)
    with pytest.raises(ValueError, match=f"sentence 0: got values up to .*; expected numbers that {dtype} can hold"):
        dump(SENTENCES, tmp_path / "v", model=model, options=DumpOptions(dtype=dtype))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("library", "options", "extra"),
    [
        ("h5py", DumpOptions(format="hdf5"), "dump"),
        ("pyarrow", DumpOptions(format="parquet"), "dump"),
        ("ray", DumpOptions(engine="ray"), "ray"),
    ],
)
def test_without_a_library_nothing_is_computed(model, tmp_path, monkeypatch, library, options, extra):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] == library:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf'pip install "spacy-elmo\[{extra}\]"'):
        dump(SENTENCES, tmp_path / "v", model=model, options=options)
    assert names_in(tmp_path) == []


def test_a_part_that_is_damaged(model, tmp_path):
    with pytest.raises(ValueError, match="sentence 7"):
        dump([*SENTENCES, ["\udfff"]], tmp_path / "v", model=model, options=SMALL_PARTS)
    first = tmp_path / ".v.parts" / "parts" / "00000.safetensors"
    first.write_bytes(first.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"00000\.safetensors: got a file that is damaged"):
        dump(SENTENCES, tmp_path / "v", model=model, options=replace(SMALL_PARTS, resume=True))


def test_a_disk_that_is_full(model, tmp_path, monkeypatch):
    """What fits is kept; when there is room again the run goes on."""
    from safetensors import SafetensorError

    from hf_elmo.dump import parts

    whole, written = parts.save_file, []

    def full(*args, **kwargs):
        if len(written) == 2:
            raise SafetensorError("No space left on device")
        written.append(whole(*args, **kwargs))

    monkeypatch.setattr(parts, "save_file", full)
    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        dump(SENTENCES, tmp_path / "v", model=model, options=SMALL_PARTS)
    assert len(names_in(tmp_path / ".v.parts" / "parts")) == 2
    monkeypatch.undo()
    dump(SENTENCES, tmp_path / "v", model=model, options=replace(SMALL_PARTS, resume=True))
    assert names_in(tmp_path) == ["v"]


def test_a_head_in_the_models_place(tmp_path):
    head = random_head(ElmoForTokenClassification)
    with pytest.raises(
        TypeError, match=r"got ElmoForTokenClassification; expected an ElmoModel: pass its biLM, model\.elmo"
    ):
        dump(SENTENCES, tmp_path / "out.hdf5", model=head)
    assert not any(tmp_path.iterdir())
