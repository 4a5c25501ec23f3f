"""The basis of klsa as an artefact of an index: new documents are folded in."""

from __future__ import annotations

import shutil

from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.klsa.basis import KIND, VERSION, LatentBasis, validate
from kernelsearch.rerankers.klsa.reranker import KernelLSA
from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings


def follow(change: DocumentChange) -> str:
    """Follows `change`: folds the documents into the basis, and returns what to report."""
    LatentBasis(change.folder, fingerprint=change.old.fingerprint)  # refuses a basis of another state of the index
    shutil.copytree(change.folder, change.target)
    data = TrainingData(output=change.target, progress=change.progress)
    KernelLSA.fit(change.new, data, KernelLSAFitSettings(fold_in=True))
    return "keeps its decomposition, new documents are folded in"


BASIS = ArtefactKind(KIND, VERSION, "train {flags} --rerank klsa", place="klsa", validate=validate, follow=follow)
