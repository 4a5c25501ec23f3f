"""The readers of files of papers/, as tests/fuzz/readers.py has those of the product."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernelsearch.papers.classify.text_files import read_texts
from kernelsearch.papers.ltr.letor import read_letor
from kernelsearch.papers.pert.kernels import read_perturbations
from kernelsearch.papers.pert.weighted_queries import read_weighted_queries
from kernelsearch.papers.reproduce.conditions import SHIPPED, read_conditions


def _labelled(path: Path) -> Any:
    return read_texts(str(path))


READERS: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "conditions": (".toml", SHIPPED.read_bytes(), read_conditions),
    "labelled-texts": (
        ".jsonl",
        b'{"text": "a tap drips", "label": "water"}\n{"text": "fuse", "label": "power"}\n',
        _labelled,
    ),
    "letor": ("", b"2 qid:7 1:0.5 3:1 # docid = A\n0 qid:7 2:1e-3\n1 qid:8 1:-1\n", read_letor),
    "perturbations": ("", b"1\t1 0 2\n1\t0.5 1 1\n2\t1 1\n", lambda path: read_perturbations(str(path))),
    "weighted-queries": ("", b'{"qid": "1", "query": "tap", "terms": {"tap": 0.5, "drip": 1}}\n', read_weighted_queries),
}
