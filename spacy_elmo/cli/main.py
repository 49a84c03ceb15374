"""`python -m spacy_elmo`: a command, or without one the demonstration."""

import argparse
import difflib
import importlib
import sys
from collections.abc import Sequence

# name: (module, one line)
COMMANDS = {
    "init-config": ("spacy_elmo.cli.init_config", "write a configuration for spacy train"),
    "cache": ("spacy_elmo.cli.cache", "compute the layers of a corpus before training"),
    "weights": ("spacy_elmo.cli.weights", "show what a trained pipeline has learnt of the layers"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or the [demonstration][spacy_elmo.demo]; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] not in COMMANDS and " " not in given[0]:
        meant = difflib.get_close_matches(given[0].lower().replace("_", "-"), COMMANDS, n=1, cutoff=0.75)
        if meant:
            print(f"spacy_elmo: got {given[0]!r}; expected a command, such as {meant[0]}.", file=sys.stderr)
            return 2
    if not given or given[0] not in COMMANDS:
        from spacy_elmo import demo

        return demo.main(given)
    name, *rest = given
    module_name, summary = COMMANDS[name]
    module = importlib.import_module(module_name)
    parser = argparse.ArgumentParser(prog=f"python -m spacy_elmo {name}", description=f"{summary.capitalize()}.")
    module.add_arguments(parser)
    try:
        status: int = module.run(parser.parse_args(rest))
    except (OSError, ValueError, ImportError) as error:
        print(f"spacy_elmo {name}: {error}", file=sys.stderr)
        return 2
    return status


def list_of_commands() -> str:
    """For the help of the demonstration."""
    return "commands: " + "; ".join(f"{name} ({summary})" for name, (_, summary) in COMMANDS.items())
