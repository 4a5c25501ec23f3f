"""A JSON array of objects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import InputError, short
from kernelsearch.core.reading import TextFile, parse_json
from kernelsearch.trec.formats import Format, Records
from kernelsearch.trec.formats.jsonl import read_jsonl


def read_json(path: Path, encoding: str) -> Records:
    """Records of `path` in `encoding`, a JSON array of objects; without a bracket first, a file has one object per line."""
    text = TextFile(path, encoding)
    first = (text.first_line() or "").strip()
    if first.startswith("{") and not first.endswith("}"):
        _refuse_object(parse_json("\n".join(line for _, line in text), str(path)), path)
    if not first.startswith("["):
        yield from read_jsonl(path, encoding)
        return
    records = parse_json("\n".join(line for _, line in text), str(path))
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict):
            raise InputError(f"item {number}: a JSON object was expected", path=path)
        yield f"item {number}", record


def arrays_of_objects(record: Mapping[str, Any]) -> list[str]:
    """The names of those values of the JSON object `record` that are arrays of objects."""
    return [name for name, value in record.items() if isinstance(value, list) and value and isinstance(value[0], dict)]


def _refuse_object(record: Mapping[str, Any], path: Path) -> None:
    """Raises InputError for a file that is one JSON object over several lines: a document, or an envelope of an array."""
    arrays = arrays_of_objects(record)
    advice = f"jq '.{arrays[0]}' FILE > NEW.json extracts its array" if arrays else "jq -c . FILE > NEW.jsonl makes it one line"
    raise InputError(
        f"one JSON object over several lines ({short(', '.join(record), 100)}); an array of "
        f"documents, or one per line, was expected: {advice}",
        path=path,
    )


FORMAT = Format("json", read_json, suffixes=(".json",), begins=r"\[")
