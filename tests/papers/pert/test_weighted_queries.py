"""Weighted queries: a round trip through a file, and malformed lines."""

import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Query
from kernelsearch.papers.pert.weighted_queries import read_weighted_queries, write_weighted_queries


def test_round_trip(tmp_path):
    queries = [Query("Wasserhähne öffnen", ("wasserhähn", "x\ty"), (1 / 3, 1e-300), "7"), Query("", (), (), "8")]
    write_weighted_queries(tmp_path / "q.jsonl", queries)
    assert read_weighted_queries(tmp_path / "q.jsonl") == {"7": queries[0], "8": queries[1]}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no weighted queries in it"),
        ("{}\n", "q.jsonl: line 1: not a weighted query"),
        ('{"qid": 1, "terms": {"a": 1}}\n{"qid": "1", "terms": {}}\n', "q.jsonl: line 2: query 1 appears twice"),
        ('{"qid": 1, "terms": {"a": -1}}\n', "q.jsonl: line 1: weights must be finite and not negative"),
        ('{"qid": 1, "terms": {"a": 1e300}}\n', "q.jsonl: line 1: weights must be finite and not negative, and at most 1e.30"),
        ('{"qid": 1, "terms": {"a": NaN}}\n', "q.jsonl: line 1: weights must be finite and not negative"),
        ('{"qid": 1, "terms": ["a"]}\n', "q.jsonl: line 1: not a weighted query"),
        ('{"qid": 1, "terms": {"a": "much"}}\n', "q.jsonl: line 1: not a weighted query"),
    ],
)
def test_bad_files_are_refused(tmp_path, text, complaint):
    (tmp_path / "q.jsonl").write_text(text)
    with pytest.raises(InputError, match=complaint):
        read_weighted_queries(tmp_path / "q.jsonl")
