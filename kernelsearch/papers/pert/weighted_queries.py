"""Weighted queries in JSON, one line per query: {"qid": "1", "query": "the text", "terms": {"term": 0.25, ...}}."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from kernelsearch.core.errors import InputError, short
from kernelsearch.core.files import write_file
from kernelsearch.core.reading import json_lines
from kernelsearch.core.types import Query

#: The largest weight: Lucene has single precision for its product with a term's score, which ends at 3.4e38.
MAX_WEIGHT = 1e30


def weighted_line(query: Query) -> str:
    """Returns a weighted query as a line of JSON; weights are written in full precision."""
    terms = dict(zip(query.terms, query.weights, strict=True))
    return json.dumps({"qid": query.qid, "query": query.text, "terms": terms}, ensure_ascii=False)


def write_weighted_queries(path: str | Path, queries: Iterable[Query]) -> None:
    """Writes weighted queries to the file `path` atomically."""
    with write_file(path) as stream:
        stream.writelines(weighted_line(query) + "\n" for query in queries)


def read_weighted_queries(path: str | Path) -> dict[str, Query]:
    """Returns the weighted queries of the file `path` by qid; terms are analysed already. Raises InputError, with the line."""
    queries: dict[str, Query] = {}
    for number, record in json_lines(path):
        try:
            qid, text, terms = str(record["qid"]), str(record.get("query", "")), dict(record["terms"])
            weights = tuple(float(weight) for weight in terms.values())
        except (ValueError, KeyError, TypeError, OverflowError):
            raise InputError(
                'not a weighted query such as {"qid": "1", "terms": {"word": 0.5}}', path=path, line=number
            ) from None
        if not all(0 <= weight <= MAX_WEIGHT for weight in weights):
            raise InputError(f"weights must be finite and not negative, and at most {MAX_WEIGHT:g}", path=path, line=number)
        if qid in queries:
            raise InputError(f"query {short(qid)} appears twice", path=path, line=number)
        queries[qid] = Query(text, tuple(map(str, terms)), weights, qid)
    if not queries:
        raise InputError("no weighted queries in it", path=path)
    return queries
