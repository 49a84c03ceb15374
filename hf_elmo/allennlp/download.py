"""Files that an old program names by their address on the web: fetched once, then read from the cache."""

import hashlib
import os
import tempfile
from http.client import HTTPException, HTTPMessage
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit
from urllib.request import urlopen

from huggingface_hub import cached_assets_path, constants
from huggingface_hub.utils import tqdm

_CHUNK = 2**20  # bytes
_TIMEOUT = 60.0  # seconds without an answer


def is_address(name: str) -> bool:
    """Whether a file is named by an http or https address."""
    return urlsplit(name).scheme in ("http", "https")


def downloaded(name: str) -> Path:
    """The path of a file; one named by its address is fetched unless the cache has it.

    The cache is `hf_elmo` in huggingface_hub's folder for assets (`HF_ASSETS_CACHE`); an address is fetched once, and
    again only after its folder there is removed. With `HF_HUB_OFFLINE` nothing is fetched.

    Raises:
        OSError: the address cannot be fetched whole; the message says what to do instead.
    """
    if not is_address(name):
        return Path(name)
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    folder = cached_assets_path("hf_elmo", namespace="downloads", subfolder=digest)
    path = folder / (PurePosixPath(urlsplit(name).path).name or "file")
    if path.is_file():
        return path
    if constants.HF_HUB_OFFLINE:
        raise OSError(_cannot(name, "HF_HUB_OFFLINE is set and the file is not in the cache", folder))
    handle, beside = tempfile.mkstemp(dir=folder, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as file:
            _fetch(name, file)
        os.replace(beside, path)
    except (OSError, HTTPException) as error:
        raise OSError(_cannot(name, str(error), folder)) from error
    finally:
        Path(beside).unlink(missing_ok=True)
    return path


def _fetch(address: str, file: IO[bytes]) -> None:
    with urlopen(address, timeout=_TIMEOUT) as response:
        expected = _length(response.headers)
        with tqdm(total=expected, unit="B", unit_scale=True, desc=PurePosixPath(urlsplit(address).path).name) as bar:
            received = 0
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                received += len(chunk)
                bar.update(len(chunk))
    if expected is not None and received != expected:
        raise OSError(f"the connection ended after {received} of {expected} bytes")


def _length(headers: HTTPMessage) -> int | None:
    length = headers.get("Content-Length")
    return int(length) if length is not None else None


def _cannot(address: str, reason: str, folder: Path) -> str:
    return (
        f"{address}: cannot be fetched: {reason}.  Get the file in another way and pass its path instead (the cache is "
        f"{folder})."
    )
