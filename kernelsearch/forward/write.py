"""Writing a forward index block by block, from whatever can walk postings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts
from kernelsearch.core.postings import PostingsSource
from kernelsearch.forward.index import KIND, VERSION, Statistics
from kernelsearch.forward.strings import StringTable, hashes


def write_forward(
    path: str | Path,
    source: PostingsSource,
    *,
    field: str,
    statistics: Statistics,
    positions: bool,
    fingerprint: str,
    block_bytes: int = 1 << 28,
    progress: Callable[[int], object] = lambda documents: None,
    twice: Callable[[str, int, int], None] | None = None,
) -> None:
    """Copies a field's postings into a forward index. Each block of rows takes about `block_bytes` of memory.

    `twice` is called with a docid and two live rows that share it, where there is such a docid.
    """
    scan = source.scan()
    documents = len(scan.lengths)
    indptr = np.concatenate([[0], np.cumsum(scan.distinct, dtype=np.int64)])
    weights = 8 * scan.distinct.astype(np.int64) + (4 * scan.lengths.astype(np.int64) if positions else 0)
    starts = _blocks(weights, block_bytes)

    def fill(folder: Path) -> None:
        _write_docids(folder, source, scan.live, starts, twice)
        _write_rows(folder, source, scan, indptr, starts, positions, progress)

    artefacts.save(
        path,
        KIND,
        VERSION,
        parameters={"field": field, "positions": positions},
        fingerprint=fingerprint,
        extra={
            "statistics": {"documents": statistics.documents, "tokens": statistics.tokens, "postings": statistics.postings},
            "rows": documents,
        },
        arrays={
            "indptr": indptr,
            "lengths": scan.lengths,
            "norms": scan.norms,
            "live": scan.live,
            "df": scan.df,
            "cf": scan.cf,
            "term_bytes": scan.term_bytes,
            "term_ends": np.cumsum(scan.term_sizes, dtype=np.int64),
        },
        fill=fill,
    )


def _blocks(weights: NDArray[np.int64], limit: int) -> list[tuple[int, int]]:
    """Cuts the rows into runs of at most `limit` (a single larger row stands alone)."""
    ends = np.cumsum(weights)
    blocks, start = [], 0
    while start < len(weights):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        blocks.append((start, end))
        start = end
    return blocks


def _write_rows(folder, source, scan, indptr, blocks, positions, progress) -> None:
    total = int(indptr[-1])
    tokens = int(scan.lengths.sum(dtype=np.int64))
    with (
        artefacts.BlockWriter(folder / "indices.npy", np.int32, (total,)) as indices,
        # Frequencies above 65,535 are possible but never seen in practice: two bytes unless a row's length allows more.
        artefacts.BlockWriter(
            folder / "frequencies.npy",
            np.uint16 if not len(scan.lengths) or scan.lengths.max() < 1 << 16 else np.int32,
            (total,),
        ) as frequencies,
        artefacts.BlockWriter(folder / "positions.npy", np.int32, (tokens if positions else 0,)) as places,
    ):
        for start, end in blocks:
            ids, counts, where = source.rows(start, end, scan, positions)
            indices.write(ids)
            frequencies.write(counts)
            places.write(where)
            progress(end - start)


def _write_docids(
    folder: Path,
    source: PostingsSource,
    live: NDArray[np.bool_],
    blocks: list[tuple[int, int]],
    twice: Callable[[str, int, int], None] | None,
) -> None:
    parts = [source.docids(start, end) for start, end in blocks]
    data = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.uint8)
    ends = np.cumsum(np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.int32), dtype=np.int64)
    table = StringTable(data, ends)
    raw = table.all_raw()
    order = np.array(sorted(range(len(raw)), key=raw.__getitem__), dtype=np.int32)
    rank = np.empty(len(raw), dtype=np.int32)
    rank[order] = np.arange(len(raw), dtype=np.int32)
    rows = np.flatnonzero(live).astype(np.int32)
    keys = hashes(raw[row] for row in rows)
    by_hash = np.argsort(keys, kind="stable")
    if twice is not None:
        for place in np.flatnonzero(keys[by_hash[1:]] == keys[by_hash[:-1]]).tolist():
            one, other = (int(rows[by_hash[near]]) for near in (place, place + 1))
            if raw[one] == raw[other]:
                twice(table[one], one, other)
    for name, array in {
        "docid_bytes": data,
        "docid_ends": ends,
        "docid_rank": rank,
        "docid_hashes": keys[by_hash],
        "docid_hash_rows": rows[by_hash],
    }.items():
        artefacts.write_array(folder / f"{name}.npy", array)
