"""`hf-elmo publish --push-to-hub` against a stand-in of the Hub, in processes of their own, and back again."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from hf_elmo import ElmoTokenizer
from hf_elmo.cli.main import main
from hf_elmo.pretraining.hub import check_repository, files_to_send
from hf_elmo.pretraining.model_card import model_card
from tests.hf_elmo.models import random_lm
from tests.hf_elmo.pretraining.hub_stand_in import TOKEN, HubStandIn, Repository, hub_stand_in
from tests.hf_elmo.pretraining.test_model_card import REPORT

REPOSITORY = Path(__file__).resolve().parents[3]
VOCABULARY = ["<S>", "</S>", "<UNK>", *(f"w{number}" for number in range(9))]
FILES = {
    "README.md",
    "config.json",
    "hf_elmo_classes.py",
    "loss_curve.png",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}


@pytest.fixture
def hub():
    with hub_stand_in() as hub:
        yield hub


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """What a training run leaves."""
    folder = tmp_path_factory.mktemp("runs") / "my-run"
    model = random_lm(vocab_size=len(VOCABULARY) + 1)
    model.save_pretrained(folder)
    ElmoTokenizer(VOCABULARY).save_pretrained(folder)
    card = model_card(
        model.config,
        REPORT,
        [],
        {},
        name="my-run",
        seconds=1,
        hardware="x",
        words_per_update=1,
        figure="loss_curve.png",
    )
    (folder / "README.md").write_text(card, encoding="utf-8")
    (folder / "loss_curve.png").write_bytes(bytes(range(256)) * 9)
    return folder


def environment(tmp_path: Path, endpoint: str, **changes: str) -> dict[str, str]:
    """Of a user who has nothing to do with whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return {
        **kept,
        "PYTHONPATH": str(REPOSITORY),
        "OMP_NUM_THREADS": "1",
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(tmp_path / "hf_home"),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_OFFLINE": "0",
        "NO_PROXY": "127.0.0.1",
        **changes,
    }


def publish(tmp_path: Path, run_dir: Path, endpoint: str, *flags: str, **variables: str):
    program = "import sys; from hf_elmo.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "publish", str(run_dir), str(tmp_path / "out"), *flags]
    return subprocess.run(
        command, env=environment(tmp_path, endpoint, **variables), capture_output=True, text=True, check=False
    )


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def programs(card: bytes) -> list[str]:
    return re.findall(r"```python\n(.*?)```", card.decode(), re.S)


def test_every_file_arrives_byte_for_byte(hub: HubStandIn, run_dir, tmp_path):
    done = publish(tmp_path, run_dir, hub.endpoint, "--push-to-hub", "user/elmo", "--with-lm-head")
    assert done.returncode == 0, done.stderr
    assert f"sent to {hub.endpoint}/user/elmo" in done.stdout
    repository = hub.repositories["user/elmo"]
    assert repository.files == written(tmp_path / "out")
    assert repository.files.keys() == FILES
    assert repository.large == {"model.safetensors", "loss_curve.png"}
    assert not repository.private
    assert repository.files["loss_curve.png"] == (run_dir / "loss_curve.png").read_bytes()


@pytest.mark.slow
def test_what_was_sent_loads_by_its_name_as_the_card_says(hub: HubStandIn, run_dir, tmp_path):
    assert publish(tmp_path, run_dir, hub.endpoint, "--push-to-hub", "user/elmo").returncode == 0
    transformers_program, spacy_program = programs(hub.repositories["user/elmo"].files["README.md"])
    assert 'from_pretrained("user/elmo")' in transformers_program
    assert '"model": "user/elmo"' in spacy_program
    save = "\nimport numpy, sys\nnumpy.save(sys.argv[1], numpy.asarray(getattr(vectors, 'detach', lambda: vectors)()))"
    results = []
    for place, folder in (("user/elmo", tmp_path / "away"), (str(tmp_path / "out"), tmp_path / "here")):
        folder.mkdir()
        for number, program in enumerate((transformers_program, spacy_program)):
            done = subprocess.run(
                [sys.executable, "-c", program.replace("user/elmo", place) + save, str(folder / f"{number}.npy")],
                env=environment(tmp_path, hub.endpoint),
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        results.append(written(folder))
    assert results[0] == results[1]
    assert any(re.fullmatch(r"GET /user/elmo/resolve/\w+/model\.safetensors", request) for request in hub.requests)


@pytest.mark.slow
def test_a_second_time_the_files_are_replaced_and_stay_private(hub: HubStandIn, run_dir, tmp_path):
    flags = ("--push-to-hub", "user/elmo", "--private")
    assert publish(tmp_path, run_dir, hub.endpoint, *flags).returncode == 0
    (tmp_path / "out").rename(tmp_path / "before")
    assert publish(tmp_path, run_dir, hub.endpoint, *flags, "--dtype=float32").returncode == 0
    assert hub.repositories["user/elmo"].files == written(tmp_path / "out") != written(tmp_path / "before")
    assert hub.repositories["user/elmo"].private


def test_a_dry_run_lists_and_asks_nobody(hub: HubStandIn, run_dir, tmp_path):
    flags = ("--push-to-hub", "user/elmo", "--private", "--dry-run")
    done = publish(tmp_path, run_dir, hub.endpoint, *flags, HF_TOKEN="")
    assert done.returncode == 0, done.stderr
    assert hub.requests == []
    listed = dict(re.findall(r"^ +([\d,]+) bytes  (\S+)$", done.stdout, re.M))
    sizes = {name: len(content) for name, content in written(tmp_path / "out").items()}
    assert {name: int(size.replace(",", "")) for size, name in listed.items()} == sizes
    assert sizes == files_to_send(tmp_path / "out")
    assert "would be sent to user/elmo (private):" in done.stdout
    assert f"{sum(sizes.values()):,} bytes in {len(FILES)} files" in done.stdout


class TestErrors:
    """In this process, which has huggingface_hub already: its constants are set instead of the environment."""

    @pytest.fixture
    def say(self, hub, run_dir, tmp_path, monkeypatch, capsys):
        """What the command says where it fails with a status, in one line."""
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")

        def said(status: int, *flags: str) -> str:
            flags = flags or ("--push-to-hub", "user/elmo")
            assert main(["publish", str(run_dir), str(tmp_path / "out"), *flags]) == status
            (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("hf-elmo publish: ")]
            return line

        return said

    def test_no_token(self, say, hub, tmp_path, monkeypatch):
        monkeypatch.delenv("HF_TOKEN")
        assert "got no token; expected one that may write" in say(1)
        assert not (tmp_path / "out").exists()
        assert hub.requests == []

    @pytest.mark.parametrize("what", ["create", "commit"])
    def test_a_token_that_may_not_write(self, say, hub, tmp_path, what):
        hub.refuse[what] = 403
        message = say(1)
        assert f"{hub.endpoint} answers 403: the token is not valid, or may not write there" in message
        assert f"hf upload user/elmo {tmp_path / 'out'}" in message
        assert (tmp_path / "out" / "model.safetensors").is_file()

    def test_a_token_that_is_not_known(self, say, monkeypatch):
        monkeypatch.setenv("HF_TOKEN", "hf_old")
        assert "answers 401" in say(1)

    def test_a_large_file_that_is_refused(self, say, hub):
        hub.refuse["lfs"] = 413
        message = say(1)
        assert "user/elmo was not sent completely" in message
        assert "answers 413: no" in message
        assert hub.repositories["user/elmo"].files == {}

    def test_nobody_answers(self, say, monkeypatch):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"  # taken, and nobody listens
            monkeypatch.setattr(constants, "ENDPOINT", endpoint)
            assert f"{endpoint} cannot be reached" in say(1)

    def test_offline(self, say, monkeypatch):
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        assert "HF_HUB_OFFLINE is set" in say(1)

    def test_a_public_repository_does_not_get_what_is_private(self, say, hub):
        hub.repositories["user/elmo"] = Repository(private=False)
        message = say(2, "--push-to-hub", "user/elmo", "--private")
        assert "--private: got user/elmo, which is there and public; nothing was sent" in message
        assert hub.repositories["user/elmo"].files == {}

    @pytest.mark.parametrize("flag", ["--private", "--dry-run"])
    def test_flags_that_need_a_repository(self, say, flag):
        assert "got no --push-to-hub" in say(2, flag)

    @pytest.mark.parametrize("repo_id", ["elmo", "user/", "/elmo", "a/b/c", "user/el mo", "user/-elmo", "user/a--b"])
    def test_what_is_no_repository(self, repo_id):
        with pytest.raises(ValueError, match=re.escape(f"--push-to-hub: got {repo_id!r}")):
            check_repository(repo_id)
