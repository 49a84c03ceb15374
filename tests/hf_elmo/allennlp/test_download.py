"""Files named by their address, served from this machine."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from hf_elmo.allennlp import Elmo, batch_to_ids, download
from tests.hf_elmo.allennlp.original import Original, assert_close
from tests.hf_elmo.models import WORDS


class Site:
    """Files by path; a path in `cut` ends in the middle."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.requests: list[str] = []
        self.address = ""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            content = served.files.get(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write((content or b"")[: len(content or b"") // 2 if self.path in served.cut else None])

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    served.address = f"http://127.0.0.1:{server.server_port}"
    cached_assets_path = download.cached_assets_path
    monkeypatch.setattr(
        download, "cached_assets_path", lambda *args, **kwargs: cached_assets_path(*args, **kwargs, assets_dir=tmp_path)
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield served
    server.shutdown()
    server.server_close()


def test_the_two_files_of_a_model_are_fetched_once(site: Site, original: Original) -> None:
    site.files = {
        "/elmo/options.json": original.options_file.read_bytes(),
        "/elmo/weights.hdf5": original.weight_file.read_bytes(),
    }
    for _ in range(2):
        elmo = Elmo(f"{site.address}/elmo/options.json", f"{site.address}/elmo/weights.hdf5", 1, dropout=0.0)
        assert_close(elmo(batch_to_ids([WORDS]))["elmo_representations"][0][0], original.mix(WORDS))
    assert site.requests == ["/elmo/options.json", "/elmo/weights.hdf5"]


def test_files_of_one_name_at_two_addresses_are_kept_apart(site: Site) -> None:
    site.files = {"/a/options.json": b"one", "/b/options.json": b"two"}
    paths = [download.downloaded(f"{site.address}/{folder}/options.json") for folder in "ab"]
    assert [path.read_bytes() for path in paths] == [b"one", b"two"]
    assert {path.name for path in paths} == {"options.json"}


def test_what_is_not_there_is_said(site: Site) -> None:
    with pytest.raises(OSError, match=r"options\.json: cannot be fetched: .*404.* pass its path instead"):
        download.downloaded(f"{site.address}/options.json")


def test_a_file_cut_short_is_not_kept(site: Site, tmp_path: Path) -> None:
    address = f"{site.address}/weights.hdf5"
    site.files, site.cut = {"/weights.hdf5": b"x" * 1000}, {"/weights.hdf5"}
    with pytest.raises(OSError, match=r"500 of 1000 bytes|IncompleteRead"):
        download.downloaded(address)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    site.cut = set()
    assert download.downloaded(address).read_bytes() == b"x" * 1000


def test_a_server_that_is_not_there_is_said(site: Site) -> None:
    with pytest.raises(OSError, match="cannot be fetched"):
        download.downloaded("http://127.0.0.1:1/options.json")


def test_offline_only_the_cache_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.files = {"/options.json": b"{}", "/other.json": b"{}"}
    download.downloaded(f"{site.address}/options.json")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download.downloaded(f"{site.address}/options.json").read_bytes() == b"{}"
    with pytest.raises(OSError, match="HF_HUB_OFFLINE"):
        download.downloaded(f"{site.address}/other.json")
    assert site.requests == ["/options.json"]


def test_a_path_is_left_as_it_is() -> None:
    assert download.downloaded("folder/options.json") == Path("folder/options.json")
    assert not download.is_address(r"C:\elmo\options.json")
