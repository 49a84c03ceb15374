"""``python -m spacy_elmo init-config``: a configuration for ``spacy train``."""

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument("--pipeline", default="ner", help="the tasks, such as ner,tagger (default: ner)")
    parser.add_argument("--lang", default="en", help="language code (default: en)")
    parser.add_argument("--model", help="folder or Hub id of an ELMo (default: the one that is installed)")
    parser.add_argument("--output", type=Path, help="file to write (default: the terminal)")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--output-mix", action="store_true", help="mix the layers after the encoder too")
    parser.add_argument("--fine-tune", action="store_true", help="train the biLM too; slower, and without a cache")
    parser.add_argument("--gpu", action="store_true", help="compute the biLM on a CUDA GPU; needs PyTorch, not cupy")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from hf_elmo.new_file import write_file
    from spacy_elmo.config_template import build_config, commented

    if args.output is not None and args.output.exists() and not args.force:
        raise ValueError(f"{args.output}: is there already; add --force to replace it.")
    text = commented(
        build_config(
            pipeline=[name.strip() for name in args.pipeline.split(",") if name.strip()],
            lang=args.lang,
            model=args.model,
            output_mix=args.output_mix,
            fine_tune=args.fine_tune,
            gpu=args.gpu,
        )
    )
    if args.output is None:
        print(text, end="")
        return 0
    args.output.parent.mkdir(parents=True, exist_ok=True)
    write_file(args.output, text)
    print(
        f"written to {args.output}; train by\n"
        f"  python -m spacy train {args.output} --output output --paths.train train.spacy --paths.dev dev.spacy",
        file=sys.stderr,
    )
    return 0
