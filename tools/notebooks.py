"""The notebooks of docs/notebooks: `python -m tools.notebooks` runs their code and stores what it prints.

The tests run them with the same functions and compare the outputs; the site shows them as pages. Neither needs Jupyter.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools import ROOT

FOLDER = ROOT / "docs" / "notebooks"


def read(path: Path) -> dict[str, Any]:
    """The notebook in the file `path` as plain data, nbformat 4."""
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def run(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Runs the code cells of `notebook` in the working folder, in their order; yields each with the text that it prints.

    As in Jupyter, the value of a last expression is printed.
    """
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, f"cell {number}", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
                if value is not None:
                    print(repr(value))
        yield cell, printed.getvalue()


def output(cell: dict[str, Any]) -> str:
    """The stored output of a code `cell`."""
    return "".join(line for part in cell["outputs"] for line in part["text"])


def markdown(notebook: dict[str, Any], name: str) -> str:
    """A `notebook` as a page of the site; `name` is its file, which the page links."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace(".ipynb)", ".md)"))  # links to other notebooks
            continue
        parts.append(f"```python\n{source}\n```")
        if output(cell).strip():
            parts.append(f"```text\n{output(cell).rstrip()}\n```")
    return "\n\n".join([*parts, f"[This page as a notebook]({name})"]) + "\n"


def main() -> None:
    """Runs all notebooks, each in a folder of its own, and stores their outputs."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = read(path)
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            for count, (cell, text) in enumerate(run(notebook), 1):
                cell["execution_count"] = count
                lines = text.splitlines(keepends=True)
                cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path}: run")


if __name__ == "__main__":
    main()
