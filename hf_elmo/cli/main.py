"""The `hf-elmo` command."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Sequence

from hf_elmo.version import __version__

# name: (module, one line)
COMMANDS = {
    "convert": ("hf_elmo.cli.convert", "weights of the original programs to a model folder"),
    "export-hdf5": ("hf_elmo.cli.export_hdf5", "a model folder to the files of the original programs"),
    "prepare": ("hf_elmo.cli.prepare", "text to tokenised shards and a vocabulary, for pretraining"),
    "pretrain": ("hf_elmo.cli.pretrain", "a prepared corpus to a biLM"),
    "adapt": ("hf_elmo.cli.adapt", "a biLM and text of a domain to a biLM of that domain"),
    "perplexity": ("hf_elmo.cli.perplexity", "how well a biLM predicts held-out text, by initial state"),
    "curve": ("hf_elmo.cli.curve", "learning curves of training runs to a figure"),
    "embed": ("hf_elmo.cli.embed", "the vectors of a text to HDF5, safetensors or Parquet"),
    "score": ("hf_elmo.cli.score", "log-probabilities of words, and what could stand in their place"),
    "train-ner": ("hf_elmo.cli.train_ner", "files in columns to a tagger of words"),
    "train-classifier": ("hf_elmo.cli.train_classifier", "labelled texts to a classifier of sentences or pairs"),
    "train-qa": ("hf_elmo.cli.train_qa", "SQuAD's JSON to a model that answers questions"),
    "layer-weights": ("hf_elmo.cli.layer_weights", "what task models have learnt of ELMo's layers, to a figure"),
    "senses": ("hf_elmo.cli.senses", "the nearest uses of a word in a text, and a map of them"),
    "publish": ("hf_elmo.cli.publish", "the folder of a training run to a model folder"),
}


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    command = argparse.ArgumentParser(prog="hf-elmo", description="ELMo for Hugging Face transformers.")
    command.add_argument("--version", action="version", version=__version__)
    commands = command.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module_name, summary) in COMMANDS.items():
        module = importlib.import_module(module_name)
        sub = commands.add_parser(name, help=summary)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return command


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    args = parser().parse_args(arguments)
    status: int = args.run(args)
    return status
