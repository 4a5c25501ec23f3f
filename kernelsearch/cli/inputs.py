"""Input of the verbs: a path is read as a file, `irds:NAME` through ir_datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelsearch.api.judged import Judgements, Topics, as_qrels, as_topics
from kernelsearch.clicks.importing import read_log
from kernelsearch.clicks.records import Record, Skipped, from_qlogs
from kernelsearch.core.errors import OptionError
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.trec.documents import read_documents


def _from_irds(source: str) -> bool:
    return source.startswith("irds:")


def load_documents(
    source: str,
    kind: str | None = None,
    encoding: str = "utf-8",
    *,
    columns: Mapping[str, str] | None = None,
    join_titles: bool = True,
    skip_unreadable: bool = False,
    number_documents: bool = False,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (place, document) of a collection; the parameters are those of `read_documents`, which reads files."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        if columns or number_documents or not join_titles:
            option = "--columns" if columns else "--number-documents" if number_documents else "--no-join-titles"
            raise OptionError(f"{option}: has no effect on {source}, whose ids and texts are those of ir_datasets")
        return irds.documents(source)
    return read_documents(
        source,
        kind,
        encoding,
        columns=columns,
        join_titles=join_titles,
        skip_unreadable=skip_unreadable,
        number_documents=number_documents,
    )


def load_topics(source: str, kind: str | None = None, field: str = "title") -> dict[str, str]:
    """Topics of `source`, {qid: text}; `kind` is the format of a file, `field` the parts of a TREC topic, joined with +."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return irds.topics(source)
    return read_topics(source, kind, field)


def load_qrels(source: str, *, by_subtopic: bool = False) -> dict[str, dict[str, int]]:
    """Relevance judgements of `source`, {qid: {docid: grade}}; `by_subtopic` is that of `read_qrels`."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return irds.qrels(source, by_subtopic=by_subtopic)
    return read_qrels(source, by_subtopic=by_subtopic)


def topics_from(topics: Topics) -> Mapping[str, str]:
    """The `topics` of a call in Python: what `load_topics` takes, or {qid: text} and others, see `as_topics`."""
    return load_topics(str(topics)) if isinstance(topics, str | Path) else as_topics(topics)


def qrels_from(qrels: Judgements, *, by_subtopic: bool = False) -> Mapping[str, Mapping[str, int]]:
    """The judgements `qrels` of a call in Python: what `load_qrels` takes, or a mapping and others, see `as_qrels`.

    `by_subtopic` is that of `load_qrels`.
    """
    if isinstance(qrels, str | Path):
        return load_qrels(str(qrels), by_subtopic=by_subtopic)
    return as_qrels(qrels, by_subtopic=by_subtopic)


def load_clicks(source: str, skipped: Skipped) -> Iterator[Record]:
    """Yields the records of the click log or database `source`; lines that can't be used are counted in `skipped`."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return from_qlogs(irds.query_log(source), skipped, source)
    return read_log(source, skipped)
