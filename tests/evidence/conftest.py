import sys
from pathlib import Path

import pytest

# The experiments are no installed package: they are found beside their script.
sys.path.append(str(Path(__file__).resolve().parents[2] / "training"))

from experiments.resources import Resources

from tests.evidence.small_data import write_data
from tests.hf_elmo.models import random_model


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every file that the programme reads, a few sentences each."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A biLM of random weights."""
    folder = tmp_path_factory.mktemp("model")
    random_model().save_pretrained(folder)
    return folder


@pytest.fixture
def resources(data_dir: Path, model_dir: Path, tmp_path: Path) -> Resources:
    """The small data and the small biLM, with a cache of their own."""
    return Resources(data_dir, str(model_dir), tmp_path / "cache", data_dir / "index.sense")
