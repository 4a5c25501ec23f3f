"""Vectors of a click log's queries: cosines between queries, and the nearest queries by FAISS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError
from kernelsearch.core.rows import unit_rows
from kernelsearch.core.types import Query
from kernelsearch.neighbours import Neighbours
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.vectors.opened import Vectors

KIND, VERSION = "vectors of logged queries", 1
#: Queries that are encoded at a time.
BLOCK = 1024


class LoggedQueryVectors:
    """Unit vectors of the clicked queries of a log, saved beside the index; zeros for queries without a vector.

    Parameters
    ----------
    index, log : the opened index and the click log
    vectors : the vectors whose query vectors are used
    stamp : the log's state; vectors of an earlier state are made again
    folder : where they are saved
    """

    def __init__(self, index: OpenedIndex, log: ClickLog, vectors: Vectors, stamp: dict[str, Any], folder: Path) -> None:
        self.vectors = vectors
        vectors.queries.require()
        wanted = {**stamp, "source": vectors.queries.stamp()}
        try:
            self.saved = index.opened(SavedQueryVectors, folder, index.fingerprint)
            if self.saved.stamp != wanted:
                raise ArtefactError("built for an earlier state of the log", path=folder)
        except ArtefactError:
            self._build(index, log, wanted, folder)
            self.saved = index.opened(SavedQueryVectors, folder, index.fingerprint)

    def _build(self, index: OpenedIndex, log: ClickLog, parameters: dict[str, Any], folder: Path) -> None:
        count, dims = log.clicked_queries(), self.vectors.documents.dims
        ids: list[int] = []
        known = 0

        def fill(partial: Path) -> None:
            nonlocal known
            with (
                artefacts.BlockWriter(partial / "rows.npy", np.float32, (count, dims)) as writer,
                index.progress("vectors of queries", total=count, unit="query") as bar,
            ):
                stream = iter(log.all_queries())
                while block := list(islice(stream, BLOCK)):
                    rows = self.unit([Query(text) for _, text in block])
                    known += int(rows.any(axis=1).sum())
                    ids.extend(number for number, _ in block)
                    writer.write(rows)
                    bar.update(len(block))
            if not known:
                raise InputError(
                    f"none of the {count} queries of ",
                    Path(log.path),
                    " has a vector; the file's ids should be the queries' texts, or ",
                    Flag("encoder", "vectors"),
                    " encodes them",
                    option=Flag("queries", "vectors"),
                )
            artefacts.write_array(partial / "ids.npy", np.array(ids, dtype=np.int64))

        artefacts.save(folder, KIND, VERSION, parameters=parameters, fingerprint=index.fingerprint, fill=fill)

    def unit(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Unit vectors of queries, shape (queries, dims); zeros for those without one."""
        out = np.zeros((len(queries), self.vectors.documents.dims), dtype=np.float32)
        for row, vector in enumerate(self.vectors.queries.find(queries)):
            if vector is not None:
                out[row] = vector
        return unit_rows(out)


class SavedQueryVectors:
    """What is saved of a log's query vectors, memory-mapped from the folder `path`; another `fingerprint` is refused.

    - `ids` (queries,): the log's numbers of its clicked queries
    - `rows` (queries, dims): their unit vectors
    - `stamp`: the state of the log and of the source of vectors that they were made from
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        meta, arrays = artefacts.load(path, KIND, VERSION, fingerprint=fingerprint)
        self.stamp: dict[str, Any] = meta["parameters"]
        self.ids: NDArray[np.int64] = arrays["ids"]
        self.rows: NDArray[np.float32] = arrays["rows"]

    def take(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Unit vectors of logged queries by their numbers in the log, shape (ids, dims)."""
        places = np.minimum(np.searchsorted(self._sorted, ids), len(self._sorted) - 1)
        rows = np.asarray(self.rows[self._order[places]])
        rows[self._sorted[places] != ids] = 0.0
        return rows

    def nearest(self, rows: NDArray[np.float32], count: int) -> list[NDArray[np.int64]]:
        """For each of the rows (queries, dims) the numbers of the `count` logged queries with the largest cosines above 0."""
        neighbours, cosines = self._neighbours.search(rows, count)
        return [self.ids[near[(near >= 0) & (values > 0)]] for near, values in zip(neighbours, cosines, strict=True)]

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.ids, kind="stable")

    @cached_property
    def _sorted(self) -> NDArray[np.int64]:
        return np.asarray(self.ids)[self._order]

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours.build(self.rows)


def parse_query_kernel(text: str | None, open_vectors: Callable[[str | None], Vectors], option: Flag) -> Vectors | None:
    """The vectors that the query kernel `text`, `vectors:NAME` or `vectors`, names; None for None.

    `open_vectors` opens vectors by name. Raises OptionError, which names `option`, for another kernel.
    """
    if text is None:
        return None
    kind, _, name = text.partition(":")
    if kind != "vectors":
        raise OptionError(f"{text!r} is not vectors:NAME", option=option)
    return open_vectors(name or None)
