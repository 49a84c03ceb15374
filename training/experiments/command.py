"""`python training/evidence.py`: run the experiments that are not done yet, then write tables and figures."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.budget import BUDGETS
from experiments.programme import all_rows, choose
from experiments.report import write_report
from experiments.resources import Resources, use_threads
from experiments.rows import Row, RowFiles, measure
from experiments.workers import Workers, last_line, python

_SCRIPT = Path(__file__).resolve().parents[1] / "evidence.py"


def main(arguments: Sequence[str]) -> int:
    """Run from the command line.

    Returns:
        The exit status: 2 where the input is at fault, 1 where a row failed.
    """
    parser = _parser()
    args = parser.parse_args(arguments)
    try:
        _check(args)
        return _run(args)
    except (OSError, ValueError, ImportError) as error:
        print(f"evidence.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("evidence.py: stopped; the same command goes on with the rows that are missing.", file=sys.stderr)
        return 130


def _run(args: argparse.Namespace) -> int:
    resources = Resources(args.data, args.model, args.cache, args.wordnet, args.device)
    every = all_rows(BUDGETS[args.budget])
    rows = choose(every, _patterns(args.only))
    files = RowFiles(args.out / "rows")
    done = {row.name for row in every if files.is_done(row, resources)}
    if args.list:
        _print_rows(rows, done, files)
        return 0
    todo = [] if args.tables else [row for row in rows if row.name not in done]
    failed = _measure_here(todo, files, resources, args) if args.workers == 0 else _measure(todo, args)
    if not args.no_tables:
        found = [files.read(row) for row in every if files.is_done(row, resources)]
        write_report(args.out, [result for result in found if result is not None], rows=len(every))
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


def _measure(todo: list[Row], args: argparse.Namespace) -> list[str]:
    """Each row in a process of its own; the names of those that failed."""
    failed = []
    logs = args.cache / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    number = 0
    minutes = sum(row.minutes for row in todo)
    print(f"{len(todo)} rows to be measured, about {minutes / 60 / args.workers:.1f} hours.", flush=True)

    def report(row: Row, status: int, log: Path) -> None:
        nonlocal number
        number += 1
        outcome = "done" if status == 0 else f"FAILED: {last_line(log)} (see {log})"
        print(f"[{number}/{len(todo)}] {row.name}: {outcome}", flush=True)
        if status:
            failed.append(row.name)

    command = [python(), str(_SCRIPT), *_flags(args), "--workers", "0", "--no-tables", "--only"]
    Workers(command, number=args.workers, threads=args.threads, logs=logs).run(todo, report)
    return failed


def _measure_here(todo: list[Row], files: RowFiles, resources: Resources, args: argparse.Namespace) -> list[str]:
    """One row after the other in this process; the first error ends it."""
    use_threads(args.threads)
    for row in todo:
        files.write(row, measure(row, resources, command=_command(row, args)))
    return []


def _flags(args: argparse.Namespace) -> list[str]:
    """What a worker is told."""
    flags = [
        *("--data", str(args.data)),
        *("--out", str(args.out)),
        *("--cache", str(args.cache)),
        *("--wordnet", str(args.wordnet)),
        *("--budget", args.budget),
        *("--device", args.device),
        *("--threads", str(args.threads)),
    ]
    return flags if args.model is None else [*flags, "--model", args.model]


def _command(row: Row, args: argparse.Namespace) -> str:
    """What measures a row again, without the paths of this machine."""
    parts = ["python training/evidence.py --data DATA_DIR"]
    if args.model is not None:
        parts.append("--model MODEL")
    if args.budget != "full":
        parts.append(f"--budget {args.budget}")
    return " ".join([*parts, "--only", row.name])


def _print_rows(rows: list[Row], done: set[str], files: RowFiles) -> None:
    table = Table("row", "state", "minutes", title_justify="left")
    left = 0.0
    for row in rows:
        result = files.read(row)
        if row.name in done and result is not None:
            table.add_row(row.name, "done", f"{result['minutes']:.1f}")
        else:
            left += row.minutes
            table.add_row(row.name, "todo", f"about {row.minutes:.0f}" if row.minutes >= 1 else "below 1")
    # As wide as it needs: the list is also read by programs.
    console = Console(width=120) if not sys.stdout.isatty() else Console()
    console.print(table)
    console.print(
        f"{len(rows)} rows, {sum(row.name in done for row in rows)} done; about {left / 60:.1f} core hours left."
    )


def _patterns(only: list[str]) -> list[str]:
    return [pattern.strip() for part in only for pattern in part.split(",") if pattern.strip()]


def _check(args: argparse.Namespace) -> None:
    if not (args.data / "tasks").is_dir():
        raise ValueError(f"--data: got {args.data}; expected a folder with tasks/conll03, tasks/ewt and so on.")
    if args.workers < 0 or args.threads < 1:
        raise ValueError(
            f"--workers, --threads: got {args.workers} and {args.threads}; expected 0 or more, and 1 or more."
        )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="training/evidence.py",
        description="Measure the claims of Peters et al. (2018) on free data.  A row that is done is not measured "
        "again unless its settings, its data or the model's weights changed.",
        allow_abbrev=False,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with tasks/ and vectors/")
    parser.add_argument("--out", type=Path, default=Path("docs/evidence"), help="for rows, tables and figures")
    parser.add_argument("--only", action="append", default=[], help="names, their beginnings, or globs, with commas")
    parser.add_argument("--model", help="folder or Hub id of an ELMo (default: the one that ships with the package)")
    parser.add_argument("--budget", choices=sorted(BUDGETS), default="full", help="tiny: only to see that it runs")
    parser.add_argument("--workers", type=int, default=2, help="rows at once, each in a process; 0: in this process")
    parser.add_argument("--threads", type=int, default=1, help="of each row (default: 1)")
    parser.add_argument(
        "--cache", type=Path, default=Path(".cache/evidence"), help="for layers and logs; can be removed"
    )
    parser.add_argument(
        "--wordnet",
        type=Path,
        default=Path("/usr/share/wordnet/index.sense"),
        help="WordNet 3.0's index.sense, for the fallback (Debian, Ubuntu: package wordnet-sense-index)",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="for the biLM and the heads")
    parser.add_argument("--list", action="store_true", help="print the rows, which are done, and estimates; do nothing")
    parser.add_argument("--tables", action="store_true", help="only write tables and figures of the rows there are")
    parser.add_argument("--no-tables", action="store_true", help="only measure")
    return parser
