"""What was derived from an index follows a change of its documents, or is dropped with the command that makes it again."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection
from pathlib import Path

from kernelsearch.api.artefact_kinds import VECTORS, kind_of
from kernelsearch.api.carrying import REPLACED, keep_trained
from kernelsearch.api.index import Index
from kernelsearch.core.errors import ArtefactError, KernelSearchError
from kernelsearch.core.progress import Progress
from kernelsearch.lucene.shards import COLLECTIONS
from kernelsearch.rerankers.artefact_kinds import DocumentChange

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
        shutil.copytree(source / REPLACED, target / REPLACED)
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
        command = f"; python -m kernelsearch.{kind.command} makes it again" if kind is not None else ""
        command = command.format(flags=f"--index {name}", name=folder.name)
        try:
            if kind is None or kind.follow is None:
                raise ArtefactError("can't follow a change of documents")
            message = kind.follow(DocumentChange(folder, place, old, new, added, progress))
            if message:
                logger.info("%s: %s %s%s", name, label, message, command)
        except KernelSearchError as problem:
            shutil.rmtree(place, ignore_errors=True)
            reason = str(problem).replace(str(new.path), str(name))
            logger.warning("%s: %s is dropped (%s)%s", name, label, reason, command)


def _folders(source: Path) -> list[Path]:
    """The folders of artefacts below `source`, without those of indexes that were replaced before."""
    folders = sorted(meta.parent for meta in source.rglob("meta.json"))
    parts = [(folder, folder.relative_to(source).parts) for folder in folders]
    return [folder for folder, names in parts if names[0] != REPLACED and not any(name.startswith(".") for name in names)]
