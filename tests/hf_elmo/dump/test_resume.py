"""A run that is killed, at any moment, goes on; the result has the same bytes as without the kill."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hf_elmo.dump import Dumped, DumpOptions, dump
from tests.hf_elmo.dump.dumps import FORMATS, NAMES, contents, many_sentences, names_in, read_back, text_of

SENTENCES = many_sentences(24)
OPTIONS = DumpOptions(part_megabytes=0.004)
RESUME = replace(OPTIONS, resume=True)
# Every file and folder takes its name by one of these.
MOMENTS = ("replace", "rename", "unlink", "rmdir")


def _killed_at(moment: int, *, after: bool, out: Path, model, options: DumpOptions) -> bool:
    """Whether a child that is killed with SIGKILL at its n-th change of a name lived long enough to be killed."""
    child = os.fork()
    if child == 0:
        calls = 0

        def deadly(change):
            def changing(*args, **kwargs):
                nonlocal calls
                calls += 1
                if calls == moment and not after:
                    os.kill(os.getpid(), signal.SIGKILL)
                try:
                    return change(*args, **kwargs)
                finally:
                    if calls == moment and after:
                        os.kill(os.getpid(), signal.SIGKILL)

            return changing

        try:
            for name in MOMENTS:
                setattr(os, name, deadly(getattr(os, name)))
            dump(SENTENCES, out, model=model, options=options)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a kill at a chosen moment needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("format", FORMATS)
def test_killed_at_every_change_of_a_name(model, tmp_path, format, after):
    name = NAMES[format]
    dump(SENTENCES, tmp_path / name, model=model, options=OPTIONS)
    uninterrupted = contents(tmp_path / name)
    moment, seen = 0, []
    while True:
        moment += 1
        folder = tmp_path / str(moment)
        folder.mkdir()
        if not _killed_at(moment, after=after, out=folder / name, model=model, options=OPTIONS):
            break
        seen.append((folder / name).exists())
        if seen[-1]:
            assert contents(folder / name) == uninterrupted
        result = dump(SENTENCES, folder / name, model=model, options=RESUME)
        assert result.sentences == len(SENTENCES)
        assert contents(folder / name) == uninterrupted
        assert names_in(folder) == [name]
    assert seen == sorted(seen)
    assert seen.count(False) >= 6
    assert seen.count(True) >= 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a kill at a chosen moment needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("format", FORMATS)
def test_killed_while_it_replaces_another(model, tmp_path, format):
    """At no moment is there half a dump: the old one, nothing for an instant (a folder), or the new one."""
    name = NAMES[format]
    old = many_sentences(5)
    dump(SENTENCES, tmp_path / name, model=model, options=OPTIONS)
    uninterrupted = contents(tmp_path / name)
    moment = 0
    while True:
        moment += 1
        out = tmp_path / str(moment) / name
        dump(old, out, model=model)
        before = contents(out)
        if not _killed_at(moment, after=False, out=out, model=model, options=replace(OPTIONS, overwrite=True)):
            break
        assert not out.exists() or contents(out) in (before, uninterrupted)
        dump(SENTENCES, out, model=model, options=replace(OPTIONS, overwrite=True, resume=True))
        assert contents(out) == uninterrupted
        assert names_in(out.parent) == [name]
    assert moment > 6


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_the_command_killed_in_the_middle(model, tmp_path, format):
    """It has half of the text when it is killed, and waits for the rest."""
    sentences = many_sentences(200)
    lines = text_of(sentences).splitlines(keepends=True)
    model.save_pretrained(tmp_path / "model")
    (tmp_path / "text.txt").write_text("".join(lines), encoding="utf-8")
    flags = ["--model", str(tmp_path / "model"), "--layers", "all", "--part-megabytes", "0.01"]
    out = tmp_path / "killed" / NAMES[format]
    code = "import sys; from hf_elmo.cli.main import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "embed", "-", "--out", str(out), *flags], stdin=subprocess.PIPE, text=True
    )
    assert child.stdin is not None
    child.stdin.write("".join(lines[:100]))
    child.stdin.flush()
    parts = out.parent / f".{out.name}.parts" / "parts"
    while child.poll() is None and sum(1 for _ in parts.glob("*.safetensors")) < 3:
        time.sleep(0.1)
    assert child.poll() is None
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdin.close()
    assert names_in(out.parent) == [f".{out.name}.parts"]

    from hf_elmo.cli.main import main

    text = str(tmp_path / "text.txt")
    made_before = {path.name: path.stat().st_mtime_ns for path in parts.glob("*.safetensors")}
    assert main(["embed", text, "--out", str(out), *flags]) == 2  # neither --resume nor --overwrite
    assert {path.name: path.stat().st_mtime_ns for path in parts.glob("*.safetensors")} == made_before
    assert main(["embed", text, "--out", str(out), *flags, "--resume"]) == 0
    assert main(["embed", text, "--out", str(tmp_path / NAMES[format]), *flags]) == 0
    assert contents(out) == contents(tmp_path / NAMES[format])
    assert len(read_back(out)) == len(sentences)
    assert names_in(out.parent) == [out.name]


def _broken_off(model, out: Path, *, after: int = 18) -> None:
    def text():
        yield from SENTENCES[:after]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dump(text(), out, model=model, options=OPTIONS)


def test_parts_that_are_there_are_not_computed_again(model, tmp_path):
    out = tmp_path / "v.h5"
    _broken_off(model, out)
    files = list((tmp_path / ".v.h5.parts" / "parts").iterdir())
    assert len(files) >= 2
    steps = []
    dump(SENTENCES, out, model=model, options=RESUME, progress=steps.append)
    assert 0 < steps[-1].words < sum(map(len, SENTENCES))


def test_without_resume_an_unfinished_run_is_left_alone(model, tmp_path):
    out = tmp_path / "v.h5"
    _broken_off(model, out)
    with pytest.raises(FileExistsError, match="continue it with --resume, or begin anew with --overwrite"):
        dump(SENTENCES, out, model=model, options=OPTIONS)
    dump(SENTENCES[:3], out, model=model, options=replace(OPTIONS, overwrite=True))
    assert len(read_back(out)) == 3
    assert names_in(tmp_path) == ["v.h5"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"layers": "top"}, "layers 'mix'; got 'top'"),
        ({"dtype": "float16"}, "dtype 'float32'; got 'float16'"),
        ({"part_megabytes": 1}, "part_megabytes 0.004; got 1"),
    ],
)
def test_a_run_goes_on_with_its_own_settings_only(model, tmp_path, changes, named):
    _broken_off(model, tmp_path / "v")
    with pytest.raises(ValueError, match=named):
        dump(SENTENCES, tmp_path / "v", model=model, options=replace(RESUME, **changes))
    dump(SENTENCES, tmp_path / "v", model=model, options=RESUME)


def test_a_run_goes_on_with_its_own_model_only(model, tmp_path):
    from copy import deepcopy

    import torch

    _broken_off(model, tmp_path / "v")
    other = deepcopy(model)
    with torch.no_grad():
        other.layers[1].forward_lstm.gates.bias[3] += 1e-3
    with pytest.raises(ValueError, match="the unfinished run has model"):
        dump(SENTENCES, tmp_path / "v", model=other, options=RESUME)


def test_a_run_goes_on_with_its_own_text_only(model, tmp_path):
    _broken_off(model, tmp_path / "v")
    changed = [list(words) for words in SENTENCES]
    changed[2][0] = "changed"
    with pytest.raises(ValueError, match="another text than that of the unfinished run, from sentence 0"):
        dump(changed, tmp_path / "v", model=model, options=RESUME)
    # As long as the first part: the others are too many.
    first_part = read_back_part(tmp_path / ".v.parts" / "parts" / "00000.safetensors")
    with pytest.raises(ValueError, match="a text that ends before"):
        dump(SENTENCES[:first_part], tmp_path / "v", model=model, options=RESUME)
    dump(SENTENCES, tmp_path / "v", model=model, options=RESUME)


def read_back_part(path: Path) -> int:
    from safetensors import safe_open

    with safe_open(path, "np") as file:
        return len(file.keys())


@pytest.mark.parametrize("format", FORMATS)
def test_resuming_what_is_complete_changes_nothing(model, tmp_path, format):
    """So that a job that is started again and again may always say --resume."""
    out = tmp_path / NAMES[format]
    assert not dump(SENTENCES, out, model=model, options=RESUME).was_complete
    before = contents(out)
    again = dump(SENTENCES, out, model=model, options=RESUME)
    assert again == Dumped(len(SENTENCES), sum(map(len, SENTENCES)), 0, was_complete=True)
    assert contents(out) == before
    for text, options in ((SENTENCES[:-1], RESUME), (SENTENCES, replace(RESUME, layers="top"))):
        with pytest.raises(FileExistsError, match="complete already, but of another text or with other settings"):
            dump(text, out, model=model, options=options)
    assert contents(out) == before
    assert names_in(tmp_path) == [out.name]


def test_two_runs_do_not_write_one_dump(model, tmp_path):
    def text():
        yield from SENTENCES[:18]
        with pytest.raises(FileExistsError, match="another process is writing it"):
            dump(SENTENCES, tmp_path / "v", model=model, options=RESUME)
        yield from SENTENCES[18:]

    dump(text(), tmp_path / "v", model=model, options=OPTIONS)
    assert len(read_back(tmp_path / "v")) == len(SENTENCES)
