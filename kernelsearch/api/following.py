"""What was derived from an index follows a change of its documents, or is dropped with the command that makes it again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from kernelsearch.api.carrying import CLICKS, REPLACED, copy_database
from kernelsearch.api.checking import KINDS
from kernelsearch.api.index import Index
from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError, InputError, KernelSearchError
from kernelsearch.core.progress import Progress
from kernelsearch.core.reading import parse_json
from kernelsearch.forward import index as forward
from kernelsearch.neighbours import CLUSTERED
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion import model as fusion
from kernelsearch.rerankers.klsa import basis as klsa
from kernelsearch.rerankers.mslm import graph as mslm
from kernelsearch.rerankers.mslm.settings import MultiScaleFitSettings
from kernelsearch.vectors import store as vectors

logger = logging.getLogger(__name__)


def follow(old: Index, new: Index, *, name: Path, added: Collection[str], progress: Progress) -> None:
    """Brings what is stored beside the index `old` up to date for its successor `new`.

    Vectors of documents that remain are kept; latent bases get the new documents folded in; graphs of related words are built
    again; fusion models and recorded clicks are kept as they are. What can't follow is dropped, and a message names the command
    that makes it again. `name` is the index in messages, `added` are the docids that are new or have a new text.
    """
    source, target = old.shards.artefacts, new.shards.artefacts
    if not source.is_dir():
        return
    flags = f"--index {name}"
    # Vectors first, because a basis may be made of them.
    found = sorted(((_kind(folder), folder) for folder in _folders(source)), key=lambda entry: entry[0] != vectors.KIND)
    for kind, folder in found:
        label, place = folder.relative_to(source), target / folder.relative_to(source)
        if kind == forward.KIND or (kind in KINDS and KINDS[kind].derived):
            continue  # exported, or made again when it is needed
        try:
            if kind not in _FOLLOW:
                raise ArtefactError("can't follow a change of documents")
            message = _FOLLOW[kind](folder, place, old, new, added, progress)
            if message:
                command = KINDS[kind].command.format(flags=flags, name=folder.name)
                logger.info("%s: %s %s; python -m kernelsearch.%s", name, label, message, command)
        except KernelSearchError as problem:
            shutil.rmtree(place, ignore_errors=True)
            command = f"; python -m kernelsearch.{KINDS[kind].command}" if kind in KINDS else ""
            reason = str(problem).replace(str(new.path), str(name))
            logger.warning("%s: %s is dropped (%s)%s", name, label, reason, command.format(flags=flags, name=folder.name))
    if (source / REPLACED).is_dir():
        shutil.copytree(source / REPLACED, target / REPLACED)


def carry_clicks(old: Index, new: Index) -> None:
    """Copies the recorded clicks, which refer to docids."""
    if (old.shards.artefacts / CLICKS).is_file():
        new.shards.artefacts.mkdir(parents=True, exist_ok=True)
        copy_database(old.shards.artefacts / CLICKS, new.shards.artefacts / CLICKS)


def _folders(source: Path) -> list[Path]:
    """The folders of artefacts below `source`, without those of indexes that were replaced before."""
    found = sorted(meta.parent for meta in source.rglob("meta.json"))
    parts = [(folder, folder.relative_to(source).parts) for folder in found]
    return [folder for folder, names in parts if names[0] != REPLACED and not any(name.startswith(".") for name in names)]


def _kind(folder: Path) -> str:
    try:
        return str(parse_json((folder / "meta.json").read_bytes(), "meta.json")["kind"])
    except (OSError, InputError, KeyError, TypeError):
        return ""


def _follow_vectors(folder: Path, place: Path, old: Index, new: Index, added: Collection[str], _: Progress) -> str:
    """Moves the vectors of documents that remain to their new rows."""
    stored = vectors.DocumentVectors(folder, fingerprint=old.fingerprint)
    docids = new.forward.docids.take(np.arange(len(new.forward)))
    remaining = np.array([docid not in added for docid in docids], dtype=bool)
    rows = np.where(remaining, old.forward.rows_of(docids), -1)
    present = (rows >= 0) & stored.present[np.maximum(rows, 0)]
    if not present.any():
        raise ArtefactError("none of the documents has a vector")
    kind = next((kind for kind in (*CLUSTERED, "hnsw") if (folder / f"neighbours.{kind}").exists()), "flat")

    def fill(partial: Path) -> None:
        with artefacts.BlockWriter(partial / "matrix.npy", stored.matrix.dtype, (len(rows), stored.dims)) as writer:
            for start in range(0, len(rows), vectors.ROWS):
                block = rows[start : start + vectors.ROWS]
                kept = present[start : start + vectors.ROWS, None]
                writer.write(np.where(kept, stored.matrix[np.maximum(block, 0)], stored.matrix.dtype.type(0)))
        vectors.finish(partial, present, kind, None)

    parameters = stored.meta["parameters"]
    vectors.save_vectors(
        place, new.forward, fill, dtype=parameters["dtype"], normalise=parameters["normalise"], encoder=stored.encoder
    )
    without = int((new.forward.live & ~present).sum())
    return f"has no vector for {without} documents" if without else ""


def _follow_basis(folder: Path, place: Path, old: Index, new: Index, _: Collection[str], progress: Progress) -> str:
    """Folds the documents into the basis."""
    klsa.LatentBasis(folder, fingerprint=old.fingerprint)
    shutil.copytree(folder, place)
    data = TrainingData(output=place, progress=progress)
    registry.method("klsa").fit(new, data, fold_in=True)
    return "keeps its decomposition, new documents are folded in"


def _follow_graph(folder: Path, place: Path, old: Index, new: Index, _: Collection[str], __: Progress) -> str:
    """Builds the graph again, with the level weights that were learned."""
    saved = mslm.GraphArtefact.load(folder, old)
    meta = artefacts.read_meta(folder, mslm.KIND, mslm.VERSION)
    settings = MultiScaleFitSettings.of(meta["parameters"])
    graph = mslm.build_graph(new, settings)
    mslm.GraphArtefact(graph, saved.weights, saved.learned_for).save(place, settings, new.fingerprint)
    return ""


def _follow_fusion(folder: Path, place: Path, old: Index, new: Index, _: Collection[str], __: Progress) -> str:
    """Copies the model: its weights are those of features, and its training queries name docids."""
    meta = artefacts.load(folder, fusion.KIND, fusion.VERSION, validate=fusion.validate)[0]
    ours = meta["fingerprint"] == old.fingerprint

    def fill(partial: Path) -> None:
        for name in meta["files"]:
            shutil.copy2(folder / name, partial / name)

    artefacts.save(
        place,
        fusion.KIND,
        fusion.VERSION,
        parameters=meta["parameters"],
        fingerprint=new.fingerprint if ours else meta["fingerprint"],
        extra=meta["extra"],
        fill=fill,
    )
    return "keeps what it learned from the documents before"


#: How each kind of artefact follows; returns what a user should know, empty for nothing, and raises where it can't.
_FOLLOW: dict[str, Callable[[Path, Path, Index, Index, Collection[str], Progress], str]] = {
    vectors.KIND: _follow_vectors,
    klsa.KIND: _follow_basis,
    mslm.KIND: _follow_graph,
    fusion.KIND: _follow_fusion,
}
