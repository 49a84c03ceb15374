"""A group's files are to be readable by the group: under every umask as open() makes them."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from hf_elmo.convert.conversion import convert
from hf_elmo.dump import DumpOptions, dump
from hf_elmo.ordinary_file import make_ordinary, save_file
from hf_elmo.pretraining.adagrad_start import ACCUMULATORS, save_accumulators
from tests.hf_elmo.models import original_files, random_lm, random_model
from tests.oracles import random_weights


@pytest.fixture(autouse=True, params=[0o022, 0o027, 0o007], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def assert_ordinary(folder: Path, umask: int) -> None:
    paths = list(folder.rglob("*"))
    assert any(path.suffix == ".safetensors" for path in paths)
    for path in paths:
        assert path.stat().st_mode & 0o777 == (0o777 if path.is_dir() else 0o666) & ~umask, path.name


def test_a_file_of_tensors(tmp_path: Path, umask: int) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / "file.safetensors")
    assert torch.equal(load_file(tmp_path / "file.safetensors")["a"], torch.ones(2))
    save_accumulators({"a": torch.ones(2)}, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"file.safetensors", ACCUMULATORS}
    assert_ordinary(tmp_path, umask)


def test_a_saved_model(tmp_path: Path, umask: int) -> None:
    random_lm().save_pretrained(tmp_path / "whole")
    random_lm().save_pretrained(tmp_path / "sharded", max_shard_size="20KB")
    random_model().save_pretrained(tmp_path / "variant", variant="other")
    assert len(list((tmp_path / "sharded").glob("model-*.safetensors"))) > 1
    assert_ordinary(tmp_path, umask)


def test_other_files_of_the_folder_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "mine.safetensors").touch(mode=0o600)
    random_model().save_pretrained(tmp_path)
    assert (tmp_path / "mine.safetensors").stat().st_mode & 0o777 == 0o600


def test_a_conversion_and_a_dump(tmp_path: Path, umask: int) -> None:
    (tmp_path / "original").mkdir()
    files = original_files(
        tmp_path / "original",
        random_weights.options("tiny"),
        random_weights.random_weights(random_weights.options("tiny"), seed=0),
    )
    convert(*files, tmp_path / "converted")
    dump([["a", "dog"]] * 9, tmp_path / "vectors", model=random_model(), options=DumpOptions(part_megabytes=0.0005))
    assert len(list((tmp_path / "vectors").glob("*.safetensors"))) > 1
    for name in ("converted", "vectors"):
        assert_ordinary(tmp_path / name, umask)


def test_a_file_system_without_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, mode: int) -> None:
        raise PermissionError(f"{path}: {mode}")

    (tmp_path / "file").touch(mode=0o400)
    monkeypatch.setattr(Path, "chmod", refused)
    make_ordinary(tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
