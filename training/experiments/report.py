"""Tables, figures, and the page whose tables are filled in anew."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from experiments.figures import write_figures
from experiments.table_contents import all_tables
from experiments.tables import Result, Results, Table
from hf_elmo.new_file import write_file

PAGE = "README.md"
_PLACE = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL)


def write_report(folder: Path, results: Sequence[Result], *, rows: int) -> None:
    """Write tables.md, tables.json and the figures, and fill the tables of the page in, if it is there.

    Args:
        folder: for all of them.
        results: the rows that were measured.
        rows: how many there are in all.

    Raises:
        ValueError: the page names a table that there is not.
    """
    tables = all_tables(Results(results))
    state = f"{len(results)} of {rows} rows measured."
    page = folder / PAGE
    if page.is_file():
        write_file(page, fill_in(page.read_text(encoding="utf-8"), tables))
    text = "\n\n".join([f"# Tables\n\n{state}", *(f"## {table.name}\n\n{table.markdown()}" for table in tables)])
    write_file(folder / "tables.md", text + "\n")
    content = {"measured": len(results), "rows": rows, "tables": [table.json() for table in tables]}
    write_file(folder / "tables.json", json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    write_figures(folder / "figures", Results(results))


def fill_in(text: str, tables: Sequence[Table]) -> str:
    """The text with every table between its marks; all else stays as it is.

    Raises:
        ValueError: a mark of a table that there is not, or one without an end.
    """
    by_name = {table.name: table for table in tables}
    begun, complete = text.count("<!-- table: "), len(_PLACE.findall(text))
    if begun != complete:
        raise ValueError(
            f"{PAGE}: got {begun} marks <!-- table: NAME -->; expected each with an <!-- end of table -->."
        )

    def table(match: re.Match[str]) -> str:
        name = match[1]
        if name not in by_name:
            raise ValueError(f"{PAGE}: got the table {name!r}; expected one of {', '.join(by_name)}.")
        return f"<!-- table: {name} -->\n\n{by_name[name].markdown()}\n\n<!-- end of table -->"

    return _PLACE.sub(table, text)
