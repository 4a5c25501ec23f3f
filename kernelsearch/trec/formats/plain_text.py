"""Plain text, one document per file."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.reading import lines
from kernelsearch.trec.formats import Format, Records


def read_text(path: Path, encoding: str) -> Records:
    """The text file `path` in `encoding`; its title is the file's name."""
    yield "", {"contents": "\n".join(line for _, line in lines(path, encoding))}


FORMAT = Format("text", read_text, suffixes=(".txt", ".text"), page=True)
