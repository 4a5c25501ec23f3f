"""A fusion model as an artefact of an index: it is kept unchanged when documents change."""

from __future__ import annotations

import shutil
from pathlib import Path

from kernelsearch.core import artefacts
from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange
from kernelsearch.rerankers.fusion.model import KIND, VERSION, validate


def follow(change: DocumentChange) -> str:
    """Follows `change` by a copy of the model and returns what to report.

    A copy will do: its weights are those of features, and its training queries name docids.
    """
    meta = artefacts.load(change.folder, KIND, VERSION, validate=validate)[0]
    ours = meta["fingerprint"] == change.old.fingerprint

    def fill(partial: Path) -> None:
        for name in meta["files"]:
            shutil.copy2(change.folder / name, partial / name)

    artefacts.save(
        change.target,
        KIND,
        VERSION,
        parameters=meta["parameters"],
        fingerprint=change.new.fingerprint if ours else meta["fingerprint"],
        extra=meta["extra"],
        fill=fill,
    )
    return "keeps what it learned from the documents before"


MODEL = ArtefactKind(
    KIND,
    VERSION,
    "train {flags} --rerank fusion --topics TOPICS --qrels QRELS",
    place="fusion",
    validate=validate,
    follow=follow,
    learned=lambda meta: True,
)
