"""The common tests that transformers runs on its own models, from the source distribution of the installed version."""

import hashlib
import importlib
import os
import re
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import transformers

PACKAGE = "transformers_tests"
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
# What the common tests import and the source distribution leaves out: tests of generation and of exporters, neither
# of which ELMo has, and values for ConfigTester to set.
LEFT_OUT: dict[str, dict[str, Any]] = {
    "generation.test_utils": {"GenerationTesterMixin": type("GenerationTesterMixin", (), {})},
    "exporters.test_export": {"ExportTesterMixin": type("ExportTesterMixin", (), {})},
    "utils.test_configuration_utils": {
        "config_common_kwargs": {
            "return_dict": False,
            "output_hidden_states": True,
            "chunk_size_feed_forward": 5,
            "architectures": ["BertModel"],
            "id2label": {0: "label"},
            "label2id": {"label": "0"},
            "problem_type": "regression",
        }
    },
}
# Its place is taken too: the tokenizers' tests read a text.
SAMPLE_TEXT = "The dog barks.\n\nIt was let out.\n"


def suite_module(name: str) -> ModuleType:
    """A module of the tests, or a skip that says why there is none."""
    try:
        importlib.import_module("parameterized")
        folder = suite_folder()
    except (ImportError, OSError, LookupError) as error:
        pytest.skip(f"transformers' own tests cannot be had: {error}", allow_module_level=True)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    for left_out, members in LEFT_OUT.items():
        package, module = left_out.split(".")
        for path in (f"{PACKAGE}.{package}", f"{PACKAGE}.{package}.{module}"):
            sys.modules.setdefault(path, ModuleType(path))
        vars(sys.modules[f"{PACKAGE}.{left_out}"]).update(members)
    return importlib.import_module(f"{PACKAGE}.{name}")


def suite_folder() -> Path:
    """The folder that holds the package of tests, in the user's cache; fetched at the first call.

    Raises:
        OSError: the index or the file cannot be read.
        LookupError: the index has no such source distribution, or the file is not the one it names.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hf_elmo"
    folder = cache / f"transformers-{transformers.__version__}-tests"
    if not folder.is_dir():
        archive = _download(f"transformers-{transformers.__version__}.tar.gz")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as beside:
            _unpack(archive, Path(beside, PACKAGE))
            Path(beside, "whole").mkdir()
            Path(beside, PACKAGE).rename(Path(beside, "whole", PACKAGE))
            try:
                Path(beside, "whole").rename(folder)
            except OSError:  # another process was faster
                if not folder.is_dir():
                    raise
    return folder


def _download(filename: str) -> bytes:
    page = _read(f"{INDEX}/transformers/").decode()
    link = re.search(rf'href="([^"#]*/{re.escape(filename)})#sha256=([0-9a-f]{{64}})"', page)
    if link is None:
        raise LookupError(f"{INDEX} has no {filename}")
    content = _read(urllib.parse.urljoin(f"{INDEX}/transformers/", link[1]))
    if hashlib.sha256(content).hexdigest() != link[2]:
        raise LookupError(f"{link[1]} has not the SHA-256 that {INDEX} names")
    return content


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as response:
        content: bytes = response.read()
    return content


def _unpack(archive: bytes, folder: Path) -> None:
    """Python files right under the archive's tests folder."""
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "fixtures").mkdir()
    (folder / "fixtures" / "sample_text.txt").write_text(SAMPLE_TEXT, encoding="utf-8")
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            for member in tar:
                parts = Path(member.name).parts
                if len(parts) == 3 and parts[1] == "tests" and parts[2].endswith(".py"):
                    content = tar.extractfile(member)
                    assert content is not None
                    (folder / parts[2]).write_bytes(content.read())
