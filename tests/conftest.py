import os
from pathlib import Path

import pytest
import torch
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ci")
# The models of most tests are so small that threads wait longer for each other than they compute.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Recorded outputs of the reference implementations; not part of the repository."""
    repository = Path(__file__).resolve().parents[1]
    path = Path(os.environ.get("ELMO_SHARED", repository.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no reference data at {path}; set ELMO_SHARED to its folder")
    return path
