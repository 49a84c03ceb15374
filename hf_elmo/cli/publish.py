"""``hf-elmo publish``: the folder of a training run to a model folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

DESCRIPTION = """Writes the model, the tokenizer and the model card of a training run, or of one of its checkpoints,
to a folder of their own, without what only training needs; with --push-to-hub also to the Hugging Face Hub, where
HF_TOKEN or `hf auth login` says who you are."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.description = DESCRIPTION
    parser.add_argument("run_dir", type=Path, metavar="RUN_DIR", help="folder of the run, or of a checkpoint")
    parser.add_argument("out", type=Path, metavar="OUT_DIR", help="the folder to make")
    parser.add_argument(
        "--dtype",
        choices=("float16", "float32"),
        default="float16",
        help="how weights are stored; they are always loaded in float32 (%(default)s)",
    )
    parser.add_argument(
        "--with-lm-head", action="store_true", help="keep the softmax, for perplexity and further pretraining"
    )
    parser.add_argument(
        "--hdf5", action="store_true", help="add a folder hdf5 with the weights as AllenNLP and bilm-tf read them"
    )
    parser.add_argument("--push-to-hub", metavar="USER/NAME", help="send the folder to this repository of the Hub")
    parser.add_argument("--private", action="store_true", help="the repository is one that only you see")
    parser.add_argument("--dry-run", action="store_true", help="write the folder and list what would be sent")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status: 2 where the input is at fault, 1 where the Hub does not take it."""
    from hf_elmo.pretraining.hub import HubError, check_repository, check_token, files_to_send, push_folder
    from hf_elmo.pretraining.publish import publish

    repo_id, written = args.push_to_hub, False
    try:
        if repo_id is None and (args.private or args.dry_run):
            raise ValueError("--private, --dry-run: got no --push-to-hub; expected the repository to send to.")
        if repo_id is not None:
            check_repository(repo_id)
            if not args.dry_run:
                check_token()
        notes = publish(
            args.run_dir,
            args.out,
            dtype=args.dtype,
            with_lm_head=args.with_lm_head,
            with_hdf5=args.hdf5,
            repo_id=repo_id,
        )
        written = True
        for note in notes:
            print(note)
        print(f"written to {args.out}")
        if repo_id is not None and args.dry_run:
            files = files_to_send(args.out)
            print(f"would be sent to {repo_id}{' (private)' if args.private else ''}:")
            for name, size in files.items():
                print(f"{size:>14,} bytes  {name}")
            print(f"{sum(files.values()):>14,} bytes in {len(files)} files")
        elif repo_id is not None:
            print(f"sent to {push_folder(args.out, repo_id, private=args.private)}")
    except HubError as error:
        again = f"  The folder is written; send it with `hf upload {repo_id} {args.out}`." if written else ""
        print(f"hf-elmo publish: {error}{again}", file=sys.stderr)
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"hf-elmo publish: {error}", file=sys.stderr)
        return 2
    return 0
