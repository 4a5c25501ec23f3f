"""Where the verbs get their data: a path is read as a file, `irds:NAME` through ir_datasets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.trec.documents import read_documents


def _from_irds(source: str) -> bool:
    return source.startswith("irds:")


def load_documents(source: str, kind: str | None = None, encoding: str = "utf-8") -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, document) of a collection."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return irds.documents(source)
    return read_documents(source, kind, encoding)


def load_topics(source: str, kind: str | None = None, field: str = "title") -> dict[str, str]:
    """Topics, {qid: text}."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return irds.topics(source)
    return read_topics(source, kind, field)


def load_qrels(source: str) -> dict[str, dict[str, int]]:
    """Judgements, {qid: {docid: grade}}."""
    if _from_irds(source):
        from kernelsearch.integrations import irds

        return irds.qrels(source)
    return read_qrels(source)
