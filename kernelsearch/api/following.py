"""What was derived from an index follows a change of its documents, or is dropped with the command that makes it again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from pathlib import Path

from kernelsearch.api.carrying import REPLACED, keep_trained
from kernelsearch.api.index import Index
from kernelsearch.api.index_artefacts import VECTORS, kind_of
from kernelsearch.core.errors import ArtefactError, DiskFull, InputError, KernelSearchError
from kernelsearch.core.files import copy_tree
from kernelsearch.core.progress import Progress
from kernelsearch.core.reading import parse_json
from kernelsearch.core.streams import raise_shortage
from kernelsearch.lucene.shards import COLLECTIONS
from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange

logger = logging.getLogger(__name__)


def follow(old: Index, new: Index, *, name: Path, added: Collection[str], progress: Progress) -> None:
    """Brings what is stored beside the index `old` up to date for its successor `new`.

    Each kind of artefact says how it follows (`ArtefactKind.follow`): vectors of documents that remain are kept, latent bases
    get the new documents folded in, fusion models are kept as they are. What can't follow is dropped, and a message names the
    command that makes it again. What belongs to a collection of this index and others can't; of that, trained models are kept
    apart, as `carrying.carry_over` keeps them. `name` is the index in messages, `added` are the docids that are new or have a
    new text, `progress` gets the progress.
    """
    source, target = old.shards.artefacts, new.shards.artefacts
    if not source.is_dir():
        return
    if (source / REPLACED).is_dir():
        copy_tree(source / REPLACED, target / REPLACED)
    # Vectors first, because a basis may be made of them.
    saved = sorted(((kind_of(folder), folder) for folder in _folders(source)), key=lambda entry: entry[0] is not VECTORS)
    for kind, folder in saved:
        if kind is not None and kind.derived:
            continue  # exported, or made again when it is needed
        label, place = folder.relative_to(source), target / folder.relative_to(source)
        if label.parts[0] == COLLECTIONS:
            if not keep_trained(name, folder, label, target):
                logger.info("%s: %s, of a collection with other indexes, is dropped", name, label)
            continue
        _follow_one(kind, DocumentChange(folder, place, old, new, added, progress), name, label, otherwise="is dropped")


def follow_elsewhere(old: Index, new: Index, *, name: Path, added: Collection[str], progress: Progress) -> None:
    """As `follow`, for artefacts in a folder that the user chose, which may hold other things.

    Only what was made for the index `old` is brought up to date, into the artefacts of `new`. What can't follow stays as it is;
    it is refused when it is loaded.
    """
    source, target = old.shards.artefacts, new.shards.artefacts
    saved = sorted(((kind_of(folder), folder) for folder in _folders(source)), key=lambda entry: entry[0] is not VECTORS)
    for kind, folder in saved:
        if kind is None or kind.derived or _fingerprint(folder) != old.fingerprint:
            continue
        change = DocumentChange(folder, target / folder.relative_to(source), old, new, added, progress)
        _follow_one(kind, change, name, folder, otherwise="can't be used any more")


def _follow_one(kind: ArtefactKind | None, change: DocumentChange, name: Path, label: Path, otherwise: str) -> None:
    """Saves one artefact for changed documents; logs what a user should know, or why it can't follow and what that means.

    `name` is the index in messages, `label` the artefact.
    """
    command = f"; python -m kernelsearch.{kind.command} makes it again" if kind is not None else ""
    command = command.format(flags=f"--index {name}", name=change.folder.name)
    try:
        if kind is None or kind.follow is None:
            raise ArtefactError("can't follow a change of documents")
        message = kind.follow(change)
        if message:
            logger.info("%s: %s %s%s", name, label, message, command)
    except DiskFull:
        raise  # without space, the change as a whole fails
    except KernelSearchError as problem:
        shutil.rmtree(change.target, ignore_errors=True)
        problem.relocate(change.target, change.folder)
        problem.relocate(Path(change.new.name), name)
        logger.warning("%s: %s %s (%s)%s", name, label, otherwise, problem, command)


def _fingerprint(folder: Path) -> str | None:
    """The fingerprint of the index that the artefact `folder` was made for; None where its description is damaged."""
    try:
        return str(parse_json((folder / "meta.json").read_bytes(), "meta.json")["fingerprint"])
    except (OSError, InputError, KeyError, TypeError) as problem:
        raise_shortage(problem)
        return None


def _folders(source: Path) -> list[Path]:
    """The folders of artefacts below `source`, without those of indexes that were replaced before."""
    folders = sorted(meta.parent for meta in source.rglob("meta.json"))
    parts = [(folder, folder.relative_to(source).parts) for folder in folders]
    return [folder for folder, names in parts if names[0] != REPLACED and not any(name.startswith(".") for name in names)]
