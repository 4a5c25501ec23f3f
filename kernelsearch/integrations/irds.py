"""Documents, topics and judgements by ir_datasets name (`irds:NAME`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.trec.qrels import add_grade
from kernelsearch.trec.topics import warn_about_empty

PREFIX = "irds:"


def dataset(name: str) -> Any:
    """A dataset of ir_datasets by its name, with or without the prefix; raises InputError for an unknown name."""
    try:
        import ir_datasets
    except ImportError:
        raise OptionError(f"{name}: ir_datasets is not installed; {install_command('datasets')}") from None
    name = name.removeprefix(PREFIX)
    try:
        return ir_datasets.load(name)
    except KeyError:
        raise InputError(f"{PREFIX}{name}: ir_datasets has no dataset of that name") from None


def _read(name: str, what: str, records: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """The records, with an InputError where the dataset has none of them or they could not be downloaded."""
    try:
        yield from records()
    except AttributeError:
        raise InputError(f"{PREFIX}{name}: this dataset has no {what}") from None
    except (OSError, RuntimeError) as problem:
        raise InputError(
            f"{PREFIX}{name}: {what} could not be downloaded ({_reason(problem)}); without a network, "
            "put the files into the folder of ir_datasets (IR_DATASETS_HOME)"
        ) from None


def _reason(problem: Exception) -> str:
    """The first line of an error of ir_datasets, without the nested exceptions of requests after it."""
    first = problem.args[0] if problem.args and isinstance(problem.args[0], str) else str(problem)
    return " ".join(first.split())[:150]


def documents(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place for messages, record) of each document of the dataset `name`, in the form of `trec.documents`."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    for number, record in enumerate(_read(name, "documents", lambda: source.docs_iter()), 1):
        fields = record._asdict()
        title = fields.get("title") or ""
        plain = {key: value for key, value in fields.items() if isinstance(value, str | int | float)}
        extra = {key: value for key, value in plain.items() if key not in ("doc_id", "title")}
        yield (
            f"{PREFIX}{name}: document {number}",
            {"id": record.doc_id, "contents": record.default_text(), "title": title, **extra},
        )


def topics(name: str) -> dict[str, str]:
    """The topics of the dataset `name`, {qid: text}, with the default text of ir_datasets; those without text are left out."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    texts = {str(record.query_id): record.default_text() for record in _read(name, "queries", lambda: source.queries_iter())}
    empty = [qid for qid, text in texts.items() if not text.strip()]
    if empty:
        warn_about_empty(empty, f"{PREFIX}{name}")
    return {qid: text for qid, text in texts.items() if text.strip()}


def qrels(name: str, *, by_subtopic: bool = False) -> dict[str, dict[str, int]]:
    """The judgements of the dataset `name`, {qid: {docid: grade}}; `by_subtopic` is that of `trec.qrels.read_qrels`.

    InputError for contradictory judgements.
    """
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    judged: dict[str, dict[str, int]] = {}
    for record in _read(name, "judgements", lambda: source.qrels_iter()):
        subtopic = str(getattr(record, "subtopic_id", getattr(record, "iteration", ""))) if by_subtopic else None
        try:
            add_grade(judged, str(record.query_id), str(record.doc_id), int(record.relevance), subtopic)
        except InputError as problem:
            raise InputError(f"{PREFIX}{name}: {problem}") from None
    return judged


def query_log(name: str) -> Iterator[Any]:
    """The records of the query log of the dataset `name`: objects with `query`, and `items` with `doc_id` and `clicked`."""
    source = dataset(name)
    name = name.removeprefix(PREFIX)
    if not source.has_qlogs():
        raise InputError(f"{PREFIX}{name}: this dataset has no query log")
    return _read(name, "query log", lambda: source.qlogs_iter())
