"""``python -m spacy_elmo cache``: the layers of a corpus, computed before training."""

import argparse
import sys
from pathlib import Path

_GIGABYTE = 10**9


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the command."""
    parser.add_argument("pipeline", metavar="CONFIG_OR_MODEL", help="a config.cfg, or the folder of a pipeline")
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA.spacy", help="the corpus, training and development")
    parser.add_argument("--cache-dir", required=True, type=Path, help="folder to fill; train with --paths.elmo_cache")
    parser.add_argument("--store-dtype", choices=["float32", "float16"], help="as in the configuration (default)")
    parser.add_argument("--max-gigabytes", type=float, help="bound on the folder (default: 20)")


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns the exit status."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from spacy_elmo.cache_warming import CacheWarming

    warming = CacheWarming(
        args.pipeline,
        cache_dir=args.cache_dir,
        cache_dir_size=None if args.max_gigabytes is None else int(args.max_gigabytes * _GIGABYTE),
        store_dtype=args.store_dtype,
    )
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        for data in args.data:
            docs = list(warming.documents(data))
            bar = progress.add_task(data.name, total=len(docs))
            for warmed in warming.run(iter(docs)):
                progress.update(bar, completed=warmed.docs)
            print(f"{data}: {warmed.docs} docs, {warmed.words} words")
    found = sum(statistics.hits for statistics in warmed.statistics)
    computed = sum(statistics.misses for statistics in warmed.statistics)
    size = sum(path.stat().st_size for path in args.cache_dir.rglob("*") if path.is_file())
    print(f"{args.cache_dir}: {computed} sentences computed, {found} were there; {size / 1e6:.1f} MB now")
    return 0
