"""Documents, topics and judgements by ir_datasets name (`irds:NAME`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernelsearch.core.errors import InputError, OptionError

PREFIX = "irds:"


def dataset(name: str) -> Any:
    """An ir_datasets dataset by name, with or without the prefix."""
    try:
        import ir_datasets
    except ImportError:
        raise OptionError(f"{name}: ir_datasets is not installed; pip install 'kernelsearch[datasets]'") from None
    name = name.removeprefix(PREFIX)
    try:
        return ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{PREFIX}{name}: ir_datasets knows no dataset of that name") from None


def _guarded(name: str, what: str, records: Any) -> Iterator[Any]:
    try:
        yield from records()
    except AttributeError:
        raise InputError(f"{PREFIX}{name}: this dataset has no {what}") from None
    except (OSError, RuntimeError) as problem:
        raise InputError(
            f"{PREFIX}{name}: {what} could not be fetched ({_reason(problem)}); without a network, "
            "put the files into ir_datasets' home (IR_DATASETS_HOME)"
        ) from None


def _reason(problem: Exception) -> str:
    """The first sentence of ir_datasets' complaint; what follows is a nest of requests' exceptions."""
    first = problem.args[0] if problem.args and isinstance(problem.args[0], str) else str(problem)
    return " ".join(first.split())[:150]


def documents(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, document) of a dataset in the form of trec.documents."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    for number, record in enumerate(_guarded(name, "documents", lambda: source.docs_iter()), 1):
        fields = record._asdict()
        title = fields.get("title") or ""
        plain = {key: value for key, value in fields.items() if isinstance(value, str | int | float)}
        kept = {key: value for key, value in plain.items() if key not in ("doc_id", "title")}
        yield (
            f"{PREFIX}{name}: document {number}",
            {"id": record.doc_id, "contents": record.default_text(), "title": title, **kept},
        )


def topics(name: str) -> dict[str, str]:
    """Topics, {qid: text}, by ir_datasets' default text."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    return {str(record.query_id): record.default_text() for record in _guarded(name, "queries", lambda: source.queries_iter())}


def qrels(name: str) -> dict[str, dict[str, int]]:
    """Judgements, {qid: {docid: grade}}."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    found: dict[str, dict[str, int]] = {}
    for record in _guarded(name, "judgements", lambda: source.qrels_iter()):
        found.setdefault(str(record.query_id), {})[str(record.doc_id)] = int(record.relevance)
    return found
