"""Reading topics: TSV, TREC, JSONL, BEIR's queries.jsonl, Anserini's CACM format; plain or gzipped. Query ids are strings."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from kernelsearch.core.errors import Flag, InputError, OptionError, quote, short
from kernelsearch.core.reading import TextFile, json_lines
from kernelsearch.trec.ids import check_id

logger = logging.getLogger(__name__)

FORMATS = ("tsv", "trec", "jsonl", "cacm")
FIELDS = ("title", "description", "narrative")

#: White space of ASCII. The analyser of the index decides what a no-break space is.
_WHITE_SPACE = re.compile(r"[ \t-\r]+")
#: Yields (line number, topic id, text) from a file.
Reader = Callable[[TextFile], Iterator[tuple[int, str, str]]]


def read_topics(path: str | Path, kind: str | None = None, field: str = "title") -> dict[str, str]:
    """Returns the topics of the file `path`, in its order, {qid: text}.

    `kind` is one of FORMATS, guessed from the content if None. `field` chooses the fields of a TREC topic, joined with `+`
    (such as `title+description`). Topics without text are left out, with a warning that names the first and its line: a run
    has no lines for them, as trec_eval expects of a topic that finds nothing. Raises InputError, with the line, for malformed
    topics and for ids that occur twice.
    """
    file = TextFile(path)
    kind = kind or _guess(file)
    if kind not in FORMATS:
        raise OptionError(f"{quote(kind)} is not one of {', '.join(FORMATS)}", option=Flag("topics-format"))
    readers: dict[str, Reader] = {"tsv": _tsv, "jsonl": _jsonl, "cacm": _cacm, "trec": partial(_trec, field=field)}
    topics: dict[str, str] = {}
    empty: dict[str, int] = {}  # topics without text, with their lines
    for number, qid, text in readers[kind](file):
        check_id(qid, "topic", f"{path}: line {number}")
        if qid in topics or qid in empty:
            raise InputError(f"topic {short(qid)} appears twice", path=path, line=number)
        if text.strip():
            topics[qid] = _WHITE_SPACE.sub(" ", text).strip()
        else:
            empty[qid] = number
    if empty:
        first, line = next(iter(empty.items()))
        if not topics:
            raise InputError(f"topic {short(first)} has no text, nor has any other (read as {kind})", path=path, line=line)
        warn_about_empty(list(empty), f"{path}: line {line}")
    if not topics:
        raise InputError(f"no topics in it (read as {kind})", path=path)
    return topics


def warn_about_empty(qids: Sequence[str], place: str) -> None:
    """One warning for all topics without text, `qids`; `place` is where the first of them was found."""
    others = f", nor have {len(qids) - 1} others; they are" if len(qids) > 1 else "; it is"
    logger.warning(
        "%s: topic %s has no text%s skipped (evaluate counts a judged topic without results as zero)",
        *(place, short(qids[0]), others),
    )


def parse_part(text: str) -> tuple[int, int]:
    """Returns (i, n) for the text `i/n`, the i-th of n parts, counted from 1; OptionError for anything else.

    >>> parse_part("2/8")
    (2, 8)
    """
    match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise OptionError(f"{quote(text)} is not I/N with I from 1 to N, such as 2/8", option=Flag("shard"))
    return int(match[1]), int(match[2])


def topics_part(topics: dict[str, str], part: tuple[int, int]) -> dict[str, str]:
    """Returns the `part` (i, n), the i-th of n parts of consecutive topics, whose sizes differ by at most one.

    >>> topics_part({"1": "a", "2": "b", "3": "c"}, (2, 2))
    {'2': 'b', '3': 'c'}
    """
    number, count = part
    start, end = ((len(topics) * place) // count for place in (number - 1, number))
    return dict(list(topics.items())[start:end])


def _guess(file: TextFile) -> str:
    """The format by the first line, which stays to be read."""
    first = file.first_line()
    if first is None:
        raise InputError("empty, topics were expected", path=file.path)
    text = first.strip().lower()
    if text.startswith("{"):
        return "jsonl"
    if text.startswith("<doc>"):
        return "cacm"
    return "trec" if text.startswith("<") else "tsv"


def _tsv(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for number, line in file:
        if not line.strip():
            continue
        qid, tab, text = line.partition("\t")
        if not tab:
            raise InputError("no tab between topic id and text", path=file.path, line=number)
        yield number, qid.strip(), text


def _jsonl(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for number, record in json_lines(file, finite=True):
        qid = next((record[key] for key in ("_id", "id", "qid", "query_id") if key in record), "")
        text = next((record[key] for key in ("text", "query", "title") if key in record), "")
        is_text = isinstance(qid, str | int) and isinstance(text, str | int | float | None)
        if not is_text or isinstance(qid, bool) or isinstance(text, bool):
            raise InputError("the id and the text of a topic must be text", path=file.path, line=number)
        yield number, str(qid).strip(), "" if text is None else str(text)


def _cacm(file: TextFile) -> Iterator[tuple[int, str, str]]:
    for start, text in _elements(file, "DOC"):
        match = re.search(r"<DOCNO>\s*(.*?)\s*</DOCNO>", text, re.S | re.I)
        yield start, match.group(1) if match else "", text[match.end() :] if match else text


def _trec(file: TextFile, field: str) -> Iterator[tuple[int, str, str]]:
    wanted = field.split("+")
    for name in wanted:
        if name not in FIELDS:
            raise OptionError(f"{quote(name)} is not one of {', '.join(FIELDS)} (joined with +)", option=Flag("topics-field"))
    for start, text in _elements(file, "top"):
        parts = _topic_parts(text)
        yield start, parts.get("number", ""), " ".join(parts.get(name, "") for name in wanted)


def _elements(file: TextFile, tag: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, content) of each element whose tags begin lines; InputError for one that isn't closed."""
    opening, closing = f"<{tag}>".lower(), f"</{tag}>".lower()
    start, inside, body = 0, False, list[str]()
    for number, line in file:
        stripped = line.strip()
        if stripped.lower().startswith(opening):
            if inside:
                raise InputError(
                    f"<{tag}> within the topic of line {start}, which has no line </{tag}>", path=file.path, line=number
                )
            start, inside, body = number, True, [stripped[len(opening) :]]
        elif inside and stripped.lower().startswith(closing):
            yield start, "\n".join(body)
            inside = False
        elif inside:
            body.append(line)
    if inside:
        raise InputError(f"<{tag}> without </{tag}>", path=file.path, line=start)


#: TREC tag, the label that often follows it, the field's name in kernelsearch
_TAGS = (
    ("num", "Number", "number"),
    ("title", "Topic", "title"),
    ("desc", "Description", "description"),
    ("narr", "Narrative", "narrative"),
)


def _topic_parts(body: str) -> dict[str, str]:
    """The fields of a TREC topic; their tags usually aren't closed."""
    parts = {}
    for tag, label, name in _TAGS:
        match = re.search(rf"<{tag}>(.*?)(?=<[a-z]+>|</[a-z]+>|\Z)", body, re.S | re.I)
        if match:
            parts[name] = " ".join(re.sub(rf"^\s*{label}:", "", match.group(1), flags=re.I).split())
    return parts
