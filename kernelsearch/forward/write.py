"""Writing a forward index in blocks, from a source of postings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts
from kernelsearch.core.postings import PostingsSource, Scan
from kernelsearch.forward.format import KIND, VERSION
from kernelsearch.forward.index import Statistics, StringTable, hashes


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
    on_duplicate: Callable[[str, int, int], None] | None = None,
) -> None:
    """Copies a field's postings into a forward index in the folder `path`, replacing an older one.

    `source` has the postings of `field`, `positions` says whether token positions are copied. `statistics` and `fingerprint`
    are those of the Lucene index. A block of rows takes about `block_bytes` of memory. `progress(documents)` is called after
    every block, `on_duplicate(docid, row, other)` for live rows with equal docids.
    """
    scan = source.scan()
    documents = len(scan.lengths)
    indptr = np.concatenate([[0], np.cumsum(scan.distinct, dtype=np.int64)])
    weights = 8 * scan.distinct.astype(np.int64) + (4 * scan.lengths.astype(np.int64) if positions else 0)
    blocks = _row_blocks(weights, block_bytes)

    def fill(folder: Path) -> None:
        _write_docids(folder, source, scan.live, blocks, on_duplicate)
        _write_rows(folder, source, scan, indptr, blocks, positions, progress)

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


def _row_blocks(weights: NDArray[np.int64], limit: int) -> list[tuple[int, int]]:
    """(first row, last row + 1) of consecutive blocks whose weights sum to at most `limit`; a heavier row is a block."""
    ends = np.cumsum(weights)
    blocks, start = [], 0
    while start < len(weights):
        before = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        blocks.append((start, end))
        start = end
    return blocks


def _write_rows(
    folder: Path,
    source: PostingsSource,
    scan: Scan,
    indptr: NDArray[np.int64],
    blocks: list[tuple[int, int]],
    positions: bool,
    progress: Callable[[int], object],
) -> None:
    """Writes term numbers, frequencies and positions."""
    total = int(indptr[-1])
    tokens = int(scan.lengths.sum(dtype=np.int64))
    with (
        artefacts.BlockWriter(folder / "indices.npy", np.int32, (total,)) as indices,
        # Frequencies above 65,535 are rare: two bytes unless a document is long enough to have one.
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
            del ids, counts, where  # their memory is Java's: one block at a time
            progress(end - start)


def _write_docids(
    folder: Path,
    source: PostingsSource,
    live: NDArray[np.bool_],
    blocks: list[tuple[int, int]],
    on_duplicate: Callable[[str, int, int], None] | None,
) -> None:
    """Writes docids, their ranks in sorted order, and the hashes to look them up by."""
    docids = [source.docids(start, end) for start, end in blocks]
    data = np.concatenate([text for text, _ in docids]) if docids else np.empty(0, np.uint8)
    ends = np.cumsum(np.concatenate([sizes for _, sizes in docids]) if docids else np.empty(0, np.int32), dtype=np.int64)
    table = StringTable(data, ends)
    raw = table.all_raw()
    order = np.array(sorted(range(len(raw)), key=raw.__getitem__), dtype=np.int32)
    rank = np.empty(len(raw), dtype=np.int32)
    rank[order] = np.arange(len(raw), dtype=np.int32)
    rows = np.flatnonzero(live).astype(np.int32)
    keys = hashes(raw[row] for row in rows)
    by_hash = np.argsort(keys, kind="stable")
    if on_duplicate is not None:
        for place in np.flatnonzero(keys[by_hash[1:]] == keys[by_hash[:-1]]).tolist():
            row, other = int(rows[by_hash[place]]), int(rows[by_hash[place + 1]])
            if raw[row] == raw[other]:
                on_duplicate(table[row], row, other)
    for name, array in {
        "docid_bytes": data,
        "docid_ends": ends,
        "docid_rank": rank,
        "docid_hashes": keys[by_hash],
        "docid_hash_rows": rows[by_hash],
    }.items():
        artefacts.write_array(folder / f"{name}.npy", array)
