"""A disk that is full, and a process that is killed, in the middle of writing a checkpoint."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file

from hf_elmo import ElmoForPreTraining
from hf_elmo.pretraining.checkpoint_error import CheckpointError, unwritten_checkpoint
from hf_elmo.pretraining.pretrain import main
from tests.hf_elmo.pretraining.prepared_corpora import prepare_sentences

REPOSITORY = Path(__file__).resolve().parents[3]
KILLED_WHILE_WRITING = """
import os, signal, sys, torch
from hf_elmo.pretraining.pretrain import main

save, calls = torch.save, []

def killed(content, path, *args, **kwargs):
    save(content, path, *args, **kwargs)
    calls.append(path)
    if "checkpoint-6" in str(path):
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)

torch.save = killed
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Folder with a prepared corpus and a recipe that saves after 3 and after 6 updates."""
    folder = tmp_path_factory.mktemp("corpus")
    prepare_sentences(folder, [[f"w{(7 * place + n) % 30}" for place in range(1 + n % 9)] for n in range(60)])
    recipe = {
        "model": {"character_filters": [[1, 8], [2, 8]], "projection_size": 12, "lstm_size": 48, "dropout": 0.1},
        "prepared": str(folder / "prepared"),
        "per_device_train_batch_size": 3,
        "unroll_steps": 5,
        "max_steps": 6,
        "save_steps": 3,
        "optim": "adamw_torch",  # its state is twice as large as the model
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "disable_tqdm": True,
        "use_cpu": True,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return folder


@pytest.fixture(scope="module")
def straight(corpus, tmp_path_factory) -> Path:
    """The folder of a run that nothing went wrong with."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    assert run(corpus, out) == 0
    return out


@pytest.fixture
def half_way(straight, tmp_path) -> Path:
    """The folder of the run as it was after three updates."""
    out = tmp_path / "out"
    shutil.copytree(straight / "checkpoint-3", out / "checkpoint-3")
    return out


def run(corpus: Path, out: Path, *flags: str) -> int:
    return main(["--recipe", str(corpus / "recipe.yaml"), "--output_dir", str(out), *flags])


def resume(corpus: Path, out: Path) -> int:
    return run(corpus, out, "--resume_from_checkpoint", "true", "--seed", "42")


@contextmanager
def largest_file(size: int):
    """No file may be larger: what goes beyond is not written, as on a full disk."""
    resource = pytest.importorskip("resource", reason="limits of a process are a matter of POSIX")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def assert_one_line(error: str, *parts: str) -> None:
    (line,) = [line for line in error.splitlines() if line.startswith("hf-elmo pretrain: ")]
    assert "Traceback" not in error
    for part in parts:
        assert part in line


def assert_same_result(one: Path, other: Path) -> None:
    for name in ("model.safetensors", "checkpoint-6/stream_state-0.safetensors", "checkpoint-6/model.safetensors"):
        tensors, expected = load_file(one / name), load_file(other / name)
        assert tensors.keys() == expected.keys()
        assert all(torch.equal(tensors[key], expected[key]) for key in tensors)


@pytest.mark.parametrize(
    ("file", "room"), [("model.safetensors", 0.5), ("optimizer.pt", 0.5), ("optimizer.pt", 0.999)], ids=str
)
def test_the_last_checkpoint_stays_and_training_goes_on_from_it(corpus, straight, half_way, capsys, file, room):
    """Whichever of its writers finds the disk full, and at whichever place of a file."""
    size = (straight / "checkpoint-3" / file).stat().st_size
    assert size > 2000
    with largest_file(int(room * size)):
        assert resume(corpus, half_way) == 1
    assert_one_line(
        capsys.readouterr().err,
        f"checkpoint-6 could not be written to {half_way}, where ",
        "MB are free",
        f"The last usable checkpoint is {half_way / 'checkpoint-3'}: make room, then go on with",
    )
    assert [path.name for path in half_way.iterdir()] == ["checkpoint-3"]
    ElmoForPreTraining.from_pretrained(half_way / "checkpoint-3")
    assert resume(corpus, half_way) == 0
    assert_same_result(half_way, straight)


def test_no_checkpoint_yet(corpus, tmp_path, capsys):
    with largest_file(2000):
        assert run(corpus, tmp_path / "out") == 1
    assert_one_line(capsys.readouterr().err, "checkpoint-3 could not be written", "There is no checkpoint yet.")
    assert list((tmp_path / "out").iterdir()) == []


def test_no_room_for_the_streams(corpus, straight, half_way, capsys, monkeypatch):
    def full(tensors, path):
        Path(path).write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("hf_elmo.pretraining.trainer.save_file", full)
    assert resume(corpus, half_way) == 1
    assert_one_line(capsys.readouterr().err, "No space left on device", str(half_way / "checkpoint-3"))
    assert [path.name for path in half_way.iterdir()] == ["checkpoint-3"]
    monkeypatch.undo()
    assert resume(corpus, half_way) == 0
    assert_same_result(half_way, straight)


def test_no_room_for_the_result(corpus, straight, tmp_path, capsys, monkeypatch):
    """All checkpoints are there; the folder has no model rather than half of one."""
    shutil.copytree(straight / "checkpoint-6", tmp_path / "checkpoint-6")
    (tmp_path / ".writing" / "checkpoint-9").mkdir(parents=True)  # of a killed run
    with largest_file(2000):
        assert resume(corpus, tmp_path) == 1
    assert_one_line(capsys.readouterr().err, "the result could not be written", str(tmp_path / "checkpoint-6"))
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-6"]
    assert resume(corpus, tmp_path) == 0
    assert_same_result(tmp_path, straight)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in straight.iterdir()} - {"checkpoint-3"}


def test_no_room_for_the_card(corpus, straight, tmp_path, capsys, monkeypatch):
    shutil.copytree(straight / "checkpoint-6", tmp_path / "checkpoint-6")
    card = "hf_elmo.pretraining.run_results.model_card"
    monkeypatch.setattr(card, lambda *args, **kwargs: "x" * 10**6)
    with largest_file(500_000):
        assert resume(corpus, tmp_path) == 1
    assert_one_line(capsys.readouterr().err, "the model card could not be written", "File too large")
    assert not list(tmp_path.glob(".*"))
    assert not (tmp_path / "README.md").exists()


class TestErrors:
    def test_other_errors_are_not_taken_for_a_full_disk(self, tmp_path):
        (tmp_path / "w").mkdir()
        with (
            pytest.raises(RuntimeError, match="of a shape"),
            unwritten_checkpoint("x", tmp_path / "w", last_checkpoint=lambda: None),
        ):
            raise RuntimeError("tensors of a shape")
        assert (tmp_path / "w").is_dir()

    def test_the_message_of_safetensors(self, tmp_path):
        with (
            pytest.raises(CheckpointError, match="I/O error: No space left on device") as caught,
            unwritten_checkpoint("checkpoint-9", tmp_path / "w", last_checkpoint=lambda: None),
        ):
            raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
        assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_killed_while_a_file_is_half_written(corpus, straight, half_way):
    arguments = ["--recipe", str(corpus / "recipe.yaml"), "--output_dir", str(half_way)]
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, *arguments, "--resume_from_checkpoint", "true"]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert {path.name for path in half_way.iterdir()} == {"checkpoint-3", ".writing"}
    assert (half_way / ".writing" / "checkpoint-6" / "model.safetensors").is_file()
    assert resume(corpus, half_way) == 0
    assert_same_result(half_way, straight)
    assert not (half_way / ".writing").exists()


@pytest.mark.slow
def test_a_file_system_without_room(corpus, straight, tmp_path):
    """A disk of its own, of a size that takes one checkpoint and not two."""
    checkpoint = sum(-(-path.stat().st_size // 4096) * 4096 for path in (straight / "checkpoint-3").iterdir())
    disk, kept = tmp_path / "disk", tmp_path / "kept"
    disk.mkdir()
    mount = f"mount -t tmpfs -o size={int(1.6 * checkpoint)} none {disk}"
    apart = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*apart, mount], check=False, capture_output=True).returncode:
        pytest.skip("mounting a file system of its own is not permitted here")
    train = f"{sys.executable} training/pretrain.py --recipe {corpus / 'recipe.yaml'} --output_dir {disk}"
    done = subprocess.run(
        [*apart, f"{mount}; {train}; status=$?; cp -r {disk} {kept}; exit $status"],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert_one_line(done.stderr, f"checkpoint-6 could not be written to {disk}, where 0.0 MB are free", "checkpoint-3")
    assert [path.name for path in kept.iterdir()] == ["checkpoint-3"]
    assert resume(corpus, kept) == 0
    assert_same_result(kept, straight)
