"""Files of texts for a classifier: JSONL with a text, and perhaps a label and an id, per line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.core.errors import InputError, quote
from kernelsearch.core.reading import lines, parse_json, to_number
from kernelsearch.papers.classify.text_classifier import LabelledTexts


@dataclass(frozen=True)
class TextRecord:
    """A text of a file: its id (the number of its line where the record has none), and its label, if there is one."""

    id: str
    text: str
    label: str | None = None


def read_texts(path: str) -> list[TextRecord]:
    """The texts of the JSONL file `path`; the key `contents` is read where there is no `text`.

    Raises InputError, with the line, for what is no such record, and for an empty file.
    """
    records = []
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            if not line.lstrip().startswith("{"):
                raise ValueError
            record = parse_json(line, f"{path}: line {number}", finite=True)
            text = record["text"] if "text" in record else record["contents"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise InputError('not a JSON record such as {"text": ..., "label": ...}', path=path, line=number) from None
        label = record.get("label")
        records.append(TextRecord(str(record.get("id", number)), text, None if label is None else str(label)))
    if not records:
        raise InputError("is empty", path=path)
    return records


def read_labelled(path: str, graph_texts: str | None = None, graph: str | None = None) -> LabelledTexts:
    """The texts of `path` with their labels, to train on.

    The word graph is made from these texts, and from those of the file `graph_texts`; or from the similar words of the file
    `graph`. Raises InputError for a text without a label, and for similar words of which none are in the texts.
    """
    records = read_texts(path)
    for number, record in enumerate(records, 1):
        if record.label is None:
            raise InputError(f"text {number} has no label", path=path)
    texts = tuple(record.text for record in records)
    similarities = read_similarities(graph) if graph else None
    if similarities is not None:
        vocabulary = set(re.findall(r"\w+", " ".join(texts).lower()))
        if not any({first.lower(), second.lower()} <= vocabulary for first, second, _ in similarities):
            raise InputError("both words of a line must be in the training texts; there is no such line", path=graph)
    further = tuple(record.text for record in read_texts(graph_texts)) if graph_texts else ()
    return LabelledTexts(texts, tuple(str(record.label) for record in records), further, similarities)


def read_similarities(path: str | Path) -> tuple[tuple[str, str, float], ...]:
    """The rows of the file of similarities `path`, `word<TAB>word<TAB>similarity` per line, with similarities in (0, 1].

    Raises InputError, with the line, for another form.
    """
    rows = []
    for number, line in lines(path):
        if not line.strip():
            continue
        parts = [part.strip() for part in (line.split("\t") if "\t" in line else line.split())]
        try:
            word, other, similarity = parts[0], parts[1], to_number(parts[2])
            if len(parts) != 3 or not word or not other or not 0 < similarity <= 1:
                raise ValueError
        except (ValueError, IndexError):
            raise InputError(
                f"two words and a similarity above 0, at most 1, were expected: {quote(line)}", path=path, line=number
            ) from None
        rows.append((word, other, similarity))
    if not rows:
        raise InputError("no similarities in it", path=path)
    return tuple(rows)
