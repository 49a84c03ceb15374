"""``hf-elmo train-classifier``: labelled texts to a classifier of sentences or pairs."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Takes everything as it is: the training reads its own flags, and those of transformers' TrainingArguments."""
    parser.prefix_chars = "\0"  # so that no flag, `--help` included, is read here
    parser.add_argument("flags", nargs="*")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status, 2 where the input is at fault."""
    from hf_elmo.tasks.classification import main

    return main(args.flags)
