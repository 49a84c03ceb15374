"""Damage at random places of every kind of source ends in one line and status 2, or does no harm."""

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_elmo import ElmoModel
from hf_elmo.cli.main import main
from tests.hf_elmo.convert.formats import allennlp_mix, allennlp_state, model_folder

KINDS = ("hdf5", "options", "vocabulary", "zip", "tar", "state-dict")
TRIES = 12


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[Path], Path]]:
    """By kind: the command's sources, and the file that is damaged."""
    folder = tmp_path_factory.mktemp("sources")
    found: dict[str, tuple[list[Path], Path]] = {}
    for kind, name in (("hdf5", "model.hdf5"), ("options", "options.json"), ("vocabulary", "vocab.txt")):
        own = model_folder(folder / kind)
        found[kind] = ([own], own / name)
    shutil.make_archive(str(folder / "216"), "zip", model_folder(folder / "zipped"))
    found["zip"] = ([folder / "216.zip"], folder / "216.zip")
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        archive.add(model_folder(folder / "in-tar"), ".")
    found["tar"] = ([folder / "model.tar.gz"], folder / "model.tar.gz")
    weights = folder / "weights.th"
    torch.save({**allennlp_state(), **allennlp_mix(0, (0.1, 0.2, 0.3), 1.5)}, weights)
    found["state-dict"] = ([weights, folder / "options" / "options.json"], weights)
    return found


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut off, with some bytes changed, with a stretch left out, or with one put in."""
    kind, place = rng.integers(4), int(rng.integers(len(content)))
    length = int(rng.integers(1, 200))
    if kind == 0:
        return content[:place]
    if kind == 1:
        changed = bytearray(content)
        for at in rng.integers(len(content), size=8):
            changed[at] ^= int(rng.integers(1, 256))
        return bytes(changed)
    if kind == 2:
        return content[:place] + content[place + length :]
    return content[:place] + rng.bytes(length) + content[place:]


@pytest.mark.parametrize("kind", KINDS)
def test_random_damage(kind: str, sources, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths, file = sources[kind]
    content = file.read_bytes()
    rng = np.random.default_rng(KINDS.index(kind))
    refused = 0
    try:
        for number in range(TRIES):
            file.write_bytes(damaged(content, rng))
            out = tmp_path / str(number)
            status = main(["convert", *map(str, paths), str(out)])
            lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hf-elmo convert")]
            if status == 0:  # what was hit is read by nobody, or is a weight like any other
                ElmoModel.from_pretrained(out)
                shutil.rmtree(out)
                continue
            assert status == 2
            assert len(lines) == 1
            assert not list(tmp_path.iterdir())
            refused += 1
    finally:
        file.write_bytes(content)
    assert refused >= 3
    assert main(["convert", *map(str, paths), str(tmp_path / "whole")]) == 0
