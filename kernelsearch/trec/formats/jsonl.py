"""JSON lines: one object per line."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.reading import TextFile, json_lines
from kernelsearch.trec.formats import Format, Records


def read_jsonl(path: Path, encoding: str) -> Records:
    """Records of the file `path` in `encoding`, with one JSON object per line."""
    for number, record in json_lines(TextFile(path, encoding)):
        yield f"line {number}", record


FORMAT = Format("jsonl", read_jsonl, suffixes=(".jsonl", ".ndjson"), begins=r"\{")
