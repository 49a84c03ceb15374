"""Programs as they are written for AllenNLP, with another import; each asserts what it set out to show."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.hf_elmo.allennlp.programs.ner import CRF, spans

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
# What these programs import, and where AllenNLP had it.
ALLENNLP = {"Elmo", "batch_to_ids", "ElmoEmbedder"}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_runs_and_learns(name: str, tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, FOLDER / f"{name}.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_the_import_is_ours(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    imports = re.findall(r"^from hf_elmo\.allennlp import (.*)$", text, flags=re.MULTILINE)
    assert len(imports) == 1
    assert set(imports[0].split(", ")) <= ALLENNLP
    assert text.count("hf_elmo") == 1


def test_the_programs_crf_equals_enumeration() -> None:
    torch.manual_seed(0)
    crf = CRF(3).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    emissions = torch.randn(4, 3, dtype=torch.double)
    sequences = [list(labels) for labels in itertools.product(range(3), repeat=4)]
    scores = torch.stack([crf.score(emissions, torch.tensor(labels)) for labels in sequences])
    torch.testing.assert_close(crf.log_partition(emissions), torch.logsumexp(scores, dim=0))
    assert crf.best(emissions) == sequences[int(scores.argmax())]


def test_the_programs_spans() -> None:
    assert spans([1, 2, 0, 3, 1]) == {(0, 2, 1), (3, 4, 3), (4, 5, 1)}
    assert spans([0, 2, 0]) == set()
