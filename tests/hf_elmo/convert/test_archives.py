"""Archives from the network: they are read, and nothing in them decides where anything is written."""

import io
import json
import shutil
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hf_elmo.cli.main import main
from hf_elmo.convert import convert
from hf_elmo.convert.archives import unpacked
from tests.hf_elmo.convert.formats import model_folder, same_parameters


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return model_folder(tmp_path / "source")


def _zip(source: Path, path: Path, rename: Callable[[str], str] = str, **kwargs) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in source.iterdir():
            archive.write(file, rename(file.name), **kwargs)
    return path


def _tar(source: Path, path: Path, rename: Callable[[str], str] = str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for file in source.iterdir():
            archive.add(file, rename(file.name))
    return path


def _converted_as_its_files(archive: Path, source: Path) -> bool:
    out = archive.parent / "out"
    convert(source, archive.parent / "plain")
    convert(archive, out)
    return same_parameters(out, archive.parent / "plain")


@pytest.mark.parametrize("where", ["", "216/", "a/b/", "C:\\models\\"])
def test_a_zip_is_its_files(where: str, source: Path, tmp_path: Path) -> None:
    assert _converted_as_its_files(_zip(source, tmp_path / "216.zip", lambda name: where + name), source)


def test_a_tar_is_its_files(source: Path, tmp_path: Path) -> None:
    assert _converted_as_its_files(_tar(source, tmp_path / "model.tar.gz"), source)


def test_what_a_mac_adds_is_passed_over(source: Path, tmp_path: Path) -> None:
    archive = _zip(source, tmp_path / "216.zip")
    with zipfile.ZipFile(archive, "a") as more:
        more.writestr("__MACOSX/._options.json", b"x")
        more.writestr("._model.hdf5", b"x")
    assert _converted_as_its_files(archive, source)


@pytest.mark.parametrize("make", [_zip, _tar])
@pytest.mark.parametrize("where", ["../../", "/", "../", "a/../../../"])
def test_names_that_lead_outside_write_nothing_there(where: str, make, source: Path, tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    marked = model_folder(tmp_path / "evil")
    (marked / "vocab.txt").rename(marked / "stolen_vocab.txt")
    archive = make(marked, inner / "evil.archive", lambda name: where + name)
    shutil.rmtree(marked)
    before = {path for path in tmp_path.rglob("*")}
    convert(archive, inner / "out")
    new = {path for path in tmp_path.rglob("*")} - before
    assert all(path.is_relative_to(inner / "out") for path in new)
    assert not Path("/stolen_vocab.txt").exists()
    assert not list((inner / "out").rglob("stolen*"))


def test_links_are_not_followed(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text((source / "options.json").read_text())
    link = zipfile.ZipInfo("options.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    (source / "options.json").unlink()
    with zipfile.ZipFile(_zip(source, tmp_path / "links.zip"), "a") as archive:
        archive.writestr(link, str(secret))
    with pytest.raises(ValueError, match=r"without their options\.json"):
        convert(tmp_path / "links.zip", tmp_path / "out")
    with tarfile.open(tmp_path / "links.tar.gz", "w:gz") as archive:
        for file in source.iterdir():
            archive.add(file, file.name)
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            info = tarfile.TarInfo("options.json")
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
    with pytest.raises(ValueError, match=r"without their options\.json"):
        convert(tmp_path / "links.tar.gz", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _declare(archive: Path, name: str, size: int) -> None:
    """Change the uncompressed size that a zip's directory claims of a member."""
    content = bytearray(archive.read_bytes())
    place = -1
    while True:
        place = content.index(b"PK\x01\x02", place + 1)
        length = struct.unpack_from("<H", content, place + 28)[0]
        if content[place + 46 : place + 46 + length] == name.encode():
            break
    struct.pack_into("<I", content, place + 24, size)
    archive.write_bytes(content)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model.hdf5", "model.hdf5 claims to have 4294967294 bytes; expected at most"),
        ("options.json", "options.json claims to have 4294967294 bytes"),
        ("vocab.txt", "vocab.txt claims to have 4294967294 bytes"),
    ],
)
def test_a_huge_claim_is_refused_before_anything_is_unpacked(
    name: str, message: str, source: Path, tmp_path: Path
) -> None:
    archive = _zip(source, tmp_path / "bomb.zip")
    _declare(archive, name, 2**32 - 2)
    with pytest.raises(ValueError, match=message):
        convert(archive, tmp_path / "out")


def test_a_bomb_of_zeros_is_refused_by_its_size(source: Path, tmp_path: Path) -> None:
    """Weights cannot be larger than their options say, however well they compress."""
    (source / "model.hdf5").write_bytes((source / "model.hdf5").read_bytes() + bytes(30_000_000))
    archive = _zip(source, tmp_path / "bomb.zip")
    assert archive.stat().st_size < 1_000_000
    with pytest.raises(
        ValueError, match=r"claims to have \d+ bytes; expected at most \d+, all that this part can hold"
    ):
        convert(archive, tmp_path / "out")


def test_a_size_that_is_too_small_is_noticed(source: Path, tmp_path: Path) -> None:
    archive = _zip(source, tmp_path / "short.zip")
    _declare(archive, "model.hdf5", 5000)
    with pytest.raises(ValueError, match=r"model\.hdf5 cannot be read"):
        convert(archive, tmp_path / "out")


def test_a_tar_that_claims_more_than_there_is(tmp_path: Path) -> None:
    header = tarfile.TarInfo("weights.th")
    header.size = 10**15
    (tmp_path / "bomb.tar").write_bytes(header.tobuf() + bytes(2048))
    with pytest.raises(ValueError, match=r"weights\.th claims to have 1000000000000000 bytes|is damaged"):
        convert(tmp_path / "bomb.tar", tmp_path / "out")


@pytest.mark.parametrize("make", [_zip, _tar])
def test_damage_is_one_line_and_leaves_nothing(
    make, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = make(source, tmp_path / ("m.zip" if make is _zip else "m.tar.gz"))
    content, rng = archive.read_bytes(), np.random.default_rng(0)
    for trial in range(40):
        damaged = bytearray(content[: rng.integers(1, len(content))] if trial % 2 else content)
        for place in rng.integers(0, len(damaged), 8):
            damaged[place] = rng.integers(0, 256)
        archive.write_bytes(damaged)
        status = main(["convert", str(archive), str(tmp_path / "out")])
        said = capsys.readouterr().err.strip()
        assert status in (0, 2)
        if status:
            assert len(said.splitlines()) == 1, said
            assert str(archive) in said
            assert not (tmp_path / "out").exists()
        else:  # the damage hit nothing that is read
            shutil.rmtree(tmp_path / "out")
        assert {path.name for path in tmp_path.iterdir()} == {"source", archive.name}


def test_errors_in_a_part_name_the_archive(source: Path, tmp_path: Path) -> None:
    options = json.loads((source / "options.json").read_text())
    options["lstm"]["dim"] = 65
    (source / "options.json").write_text(json.dumps(options))
    archive = _zip(source, tmp_path / "216.zip")
    with pytest.raises(ValueError, match=rf"^{archive}: weights\.hdf5: dataset .* expected"):
        convert(archive, tmp_path / "out")


def test_an_archive_with_a_password(source: Path, tmp_path: Path) -> None:
    archive = _zip(source, tmp_path / "locked.zip")
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.find(signature)
        while place >= 0:
            content[place + offset] |= 1
            place = content.find(signature, place + 1)
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=r"is damaged, cut off or locked: .*password"):
        convert(archive, tmp_path / "out")


def test_other_archives_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        for name in ("char.dic", "config.json", "encoder.pkl", "token_embedder.pkl", "word.dic"):
            archive.writestr(f"161/{name}", b"x")
    with pytest.raises(ValueError, match=r"many\.zip: got encoder\.pkl .*ELMoForManyLangs"):
        convert(tmp_path / "many.zip", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("cat.jpg", b"x")
    with pytest.raises(ValueError, match="an archive of 1 files without weights"):
        convert(tmp_path / "photos.zip", tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        for name in ("a/options.json", "b/options.json", "a/model.hdf5"):
            archive.writestr(name, b"x")
    with pytest.raises(ValueError, match=r"2 files for the part options\.json: a/options\.json, b/options\.json"):
        convert(tmp_path / "two.zip", tmp_path / "out")


def test_nothing_stays_in_the_temporary_folder(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    archive = _zip(source, tmp_path / "216.zip")
    with unpacked(archive) as folder:
        assert folder.is_relative_to(tmp_path)
        assert {path.name for path in folder.iterdir()} == {"options.json", "weights.hdf5", "vocab.txt"}
    (source / "options.json").write_text("{}")
    broken = _zip(source, tmp_path / "broken.zip")
    with pytest.raises(ValueError, match="char_cnn: missing"):
        convert(broken, tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"source", "216.zip", "broken.zip"}


def test_an_unknown_compression(source: Path, tmp_path: Path) -> None:
    archive = _zip(source, tmp_path / "odd.zip")
    content = bytearray(archive.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        place = content.find(signature)
        while place >= 0:
            content[place + offset] = 97
            place = content.find(signature, place + 1)
    archive.write_bytes(io.BytesIO(bytes(content)).read())
    with pytest.raises(ValueError, match="damaged, cut off or locked"):
        convert(archive, tmp_path / "out")
