import subprocess
import sys

import pytest

from spacy_elmo.cli.main import COMMANDS, main
from tests.spacy_elmo.test_entry_points import run_python


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "--word" in printed
    assert all(name in printed for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"python -m spacy_elmo {command}" in capsys.readouterr().out


def test_anything_else_is_the_demonstration(tiny_folder, capsys):
    assert main(["--model", str(tiny_folder), "A bank .", "The bank ."]) == 0
    assert '"bank", 2 occurrences' in capsys.readouterr().out


@pytest.mark.parametrize(("given", "meant"), [("wieghts", "weights"), ("init_config", "init-config")])
def test_a_misspelt_command_is_no_text(capsys, given, meant):
    assert main([given, "somewhere"]) == 2
    assert f"got {given!r}; expected a command, such as {meant}." in capsys.readouterr().err


def test_the_module_runs_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "spacy_elmo", "weights", "no such pipeline"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("spacy_elmo weights: ")
    assert "no such pipeline" in done.stderr
    assert "Traceback" not in done.stderr


def test_commands_import_nothing_heavy_to_show_their_help():
    run_python(
        "import sys\n"
        "from spacy_elmo.cli.main import main\n"
        "try:\n"
        "    main(['init-config', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'spacy', 'transformers'} & set(sys.modules)"
    )
