import contextlib
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hf_elmo.layer_files import LayerFiles

LARGE = 10**9


def files_in(folder: Path, **options) -> LayerFiles:
    return LayerFiles(folder, **{"group": "a", "dtype": "float32", "max_bytes": LARGE, **options})


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def numbers(seed: int, words: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(3, words, 6)).astype("f")


@given(
    entries=st.lists(
        arrays("f", st.tuples(st.integers(1, 3), st.integers(0, 4), st.integers(1, 3)), elements=st.floats(width=32)),
        max_size=6,
    ),
    data=st.data(),
)
def test_what_is_stored_comes_back_to_the_bit(tmp_path_factory, entries, data):
    """By several objects, in any order, as several programs would."""
    folder = tmp_path_factory.mktemp("cache")
    programs = [files_in(folder) for _ in range(3)]
    for number, entry in enumerate(entries):
        assert data.draw(st.sampled_from(programs)).put(key(number), entry)
        for program in data.draw(st.permutations([*programs, files_in(folder)])):
            for earlier in range(number + 1):
                got = program.get(key(earlier))
                assert got.shape == entries[earlier].shape
                assert got.tobytes() == entries[earlier].tobytes()
            assert program.get(key(number + 1)) is None


def test_groups_know_nothing_of_each_other(tmp_path):
    files_in(tmp_path, group="a").put(key(0), numbers(0))
    assert files_in(tmp_path, group="b").get(key(0)) is None


def test_half_precision(tmp_path):
    files = files_in(tmp_path, dtype="float16")
    files.put(key(0), numbers(0))
    stored = files_in(tmp_path, dtype="float16").get(key(0))
    np.testing.assert_array_equal(stored, numbers(0).astype(np.float16))


def only(folder: Path, ending: str) -> Path:
    (path,) = folder.glob(f"a/*.{ending}")
    return path


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("live", [True, False], ids=["while open", "later"])
@pytest.mark.parametrize("part", [0.0, 0.5, 0.999])
def test_a_changed_number_is_noticed_and_the_file_made_anew(tmp_path, caplog, part, live):
    files = files_in(tmp_path)
    for number in range(3):
        files.put(key(number), numbers(number))
    damaged = only(tmp_path, "layers")
    flip(damaged, int(part * damaged.stat().st_size))
    files = files if live else files_in(tmp_path)
    got = [files.get(key(number)) for number in range(3)]
    assert any(array is None for array in got)
    for number, array in enumerate(got):
        if array is not None:
            np.testing.assert_array_equal(array, numbers(number))
    assert not damaged.exists()
    assert "cut off or changed" in caplog.text
    for number in range(3):
        files.put(key(number), numbers(number))
    fresh = files_in(tmp_path)
    for number in range(3):
        np.testing.assert_array_equal(fresh.get(key(number)), numbers(number))


def test_every_byte_of_the_index_is_guarded(tmp_path):
    files = files_in(tmp_path)
    files.put(key(0), numbers(0))
    files.put(key(1), numbers(1))
    index, layers = only(tmp_path, "index"), only(tmp_path, "layers")
    contents = {path: path.read_bytes() for path in (index, layers)}
    for position in range(len(contents[index])):
        for path, content in contents.items():
            path.write_bytes(content)
        flip(index, position)
        found = files_in(tmp_path)
        for number in range(2):
            got = found.get(key(number))
            assert got is None or got.tobytes() == numbers(number).tobytes()
        assert len(found) < 2, position


def test_files_cut_off_anywhere_give_whole_entries_or_none(tmp_path):
    files = files_in(tmp_path)
    for number in range(3):
        files.put(key(number), numbers(number, words=1))
    index, layers = only(tmp_path, "index"), only(tmp_path, "layers")
    contents = {path: path.read_bytes() for path in (index, layers)}
    for cut in (index, layers):
        for length in range(0, len(contents[cut]), 7):
            for path, content in contents.items():
                path.write_bytes(content[:length] if path == cut else content)
            found = files_in(tmp_path)
            for number in range(3):
                got = found.get(key(number))
                assert got is None or got.tobytes() == numbers(number, words=1).tobytes()


def test_a_record_under_way_is_read_when_it_is_complete(tmp_path):
    files = files_in(tmp_path)
    files.put(key(0), numbers(0))
    index = only(tmp_path, "index")
    content = index.read_bytes()
    for length in (0, 5, len(content) - 1):
        index.write_bytes(content[:length])
        reader = files_in(tmp_path)
        assert reader.get(key(0)) is None
        index.write_bytes(content)
        np.testing.assert_array_equal(reader.get(key(0)), numbers(0))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_a_full_folder_keeps_what_it_has(tmp_path, caplog):
    one = numbers(0).nbytes
    files = files_in(tmp_path, max_bytes=10 * one)
    stored = [number for number in range(30) if files.put(key(number), numbers(number))]
    assert stored == list(range(len(stored)))
    assert 6 <= len(stored) < 10
    assert size_of(tmp_path) <= 10 * one
    assert caplog.text.count("reached its bound") == 1
    np.testing.assert_array_equal(files.get(key(0)), numbers(0))
    assert not files_in(tmp_path, max_bytes=10 * one).put(key(50), numbers(50))


def test_what_belongs_to_other_weights_goes_first(tmp_path):
    one = numbers(0).nbytes
    bound = 20 * one
    for group in "xy":
        files = files_in(tmp_path, group=group, max_bytes=bound)
        for number in range(6):
            files.put(key(number), numbers(number))
    os.utime(next(tmp_path.glob("x/*.layers")), (1, 1))
    files = files_in(tmp_path, group="a", max_bytes=bound)
    for number in range(8):
        assert files.put(key(number), numbers(number))
    assert size_of(tmp_path) <= bound
    assert not list(tmp_path.glob("x/*.layers"))
    assert len(files_in(tmp_path, group="y")) == 6


def test_one_giant_does_not_take_the_room_of_all(tmp_path):
    files = files_in(tmp_path, max_bytes=10 * numbers(0).nbytes)
    assert not files.put(key(0), numbers(0, words=40))
    assert files.put(key(1), numbers(1))


def test_a_folder_that_cannot_be_written_to_is_read_all_the_same(tmp_path, caplog, monkeypatch):
    files_in(tmp_path).put(key(0), numbers(0))
    files = files_in(tmp_path)

    path_open = Path.open

    def read_only(self, mode="r", **options):
        if "x" in mode:
            raise PermissionError("read-only")
        return path_open(self, mode, **options)

    monkeypatch.setattr(Path, "open", read_only)
    assert not files.put(key(1), numbers(1))
    assert not files.put(key(2), numbers(2))
    assert caplog.text.count("cannot be written") == 1
    np.testing.assert_array_equal(files.get(key(0)), numbers(0))


def store(folder: Path, files: LayerFiles | None, worker: int) -> None:
    files = files or files_in(folder)
    for number in range(40):
        entry = key(number)
        found = files.get(entry)
        if found is not None:
            assert found.tobytes() == numbers(number).tobytes()
        files.put(entry, numbers(number))
        files.put(key(1000 * (worker + 1) + number), numbers(number))


@pytest.mark.parametrize("inherited", [True, False])
def test_several_processes_at_once(tmp_path, inherited):
    """Also where they are forked from one that has its files open."""
    files = files_in(tmp_path)
    files.put(key(0), numbers(0))
    context = multiprocessing.get_context("fork")
    workers = [
        context.Process(target=store, args=(tmp_path, files if inherited else None, worker)) for worker in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    files.put(key(999), numbers(999))
    for reader in (files, files_in(tmp_path)):
        for number in range(40):
            assert reader.get(key(number)).tobytes() == numbers(number).tobytes()
            for worker in range(3):
                assert reader.get(key(1000 * (worker + 1) + number)).tobytes() == numbers(number).tobytes()
        assert reader.get(key(999)).tobytes() == numbers(999).tobytes()


def test_files_that_vanish_are_a_miss(tmp_path):
    files_in(tmp_path).put(key(0), numbers(0))
    files = files_in(tmp_path)
    for path in tmp_path.glob("a/*"):
        path.unlink()
    assert files.get(key(0)) is None
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "a").rmdir()
    assert files.get(key(0)) is None
