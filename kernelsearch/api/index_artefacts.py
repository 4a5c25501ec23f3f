"""All kinds of artefacts that are saved beside an index: those of the index itself, and those that the methods declare."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError, InputError
from kernelsearch.core.reading import parse_json
from kernelsearch.core.streams import raise_shortage
from kernelsearch.forward import format as forward_format
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange
from kernelsearch.vectors import store as vectors


def known_kinds() -> dict[str, ArtefactKind]:
    """The kinds by name; a kind that two methods declare is listed once."""
    kinds = [*OWN_KINDS, *registry.artefact_kinds()]
    return {kind.name: kind for kind in reversed(kinds)}


def kind_of(folder: Path) -> ArtefactKind | None:
    """The kind of the artefact `folder`, from its `meta.json` or, where that is damaged, from its place; None for others."""
    kinds = known_kinds()
    try:
        return kinds[parse_json((folder / "meta.json").read_bytes(), "meta.json")["kind"]]
    except (OSError, InputError, KeyError, TypeError) as problem:
        raise_shortage(problem)
        names = (folder.name, folder.parent.name)
        return next((kind for kind in kinds.values() if any(fnmatch(name, kind.place) for name in names)), None)


def _follow_vectors(change: DocumentChange) -> str:
    """Moves the vectors of documents that remain to their new rows."""
    old, new = change.old, change.new
    stored = vectors.DocumentVectors(change.folder, fingerprint=old.fingerprint)
    docids = new.forward.docids.take(np.arange(len(new.forward)))
    remaining = np.array([docid not in change.added for docid in docids], dtype=bool)
    rows = np.where(remaining, old.forward.rows_of(docids), -1)
    present = (rows >= 0) & stored.present[np.maximum(rows, 0)]
    if not present.any():
        raise ArtefactError("none of the documents has a vector")
    kind = stored.saved_kind or "flat"

    def fill(partial: Path) -> None:
        with artefacts.BlockWriter(partial / "matrix.npy", stored.matrix.dtype, (len(rows), stored.dims)) as writer:
            for start in range(0, len(rows), vectors.ROWS):
                block = rows[start : start + vectors.ROWS]
                rows_present = present[start : start + vectors.ROWS, None]
                writer.write(np.where(rows_present, stored.matrix[np.maximum(block, 0)], stored.matrix.dtype.type(0)))
        vectors.finish(partial, present, kind, None)

    parameters = stored.meta["parameters"]
    vectors.save_vectors(
        change.target,
        new.forward,
        fill,
        dtype=parameters["dtype"],
        normalise=parameters["normalise"],
        encoder=stored.encoder,
        max_tokens=parameters.get("max_tokens"),
    )
    without = int((new.forward.live & ~present).sum())
    return f"has no vector for {without} documents" if without else ""


FORWARD = ArtefactKind(
    forward_format.KIND,
    forward_format.VERSION,
    "index {flags} --fields {name}",
    place="forward",
    validate=forward_format.validate,
    derived=True,
)
VECTORS = ArtefactKind(
    vectors.KIND,
    vectors.VERSION,
    "vectors {flags} --name {name} --input FILE",
    place="vectors",
    validate=vectors.validate,
    follow=_follow_vectors,
)
#: Kinds that belong to no method.
OWN_KINDS = (FORWARD, VECTORS)
