"""A method of somebody else's with fitted state: the first stage's score plus the logarithm of the document's length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelsearch.core import artefacts
from kernelsearch.core.options import Settings
from kernelsearch.rerankers.artefact_kinds import ArtefactKind
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Reranker
from kernelsearch.rerankers.registry import Method


@dataclass(frozen=True, kw_only=True)
class LengthPriorSettings(Settings):
    """Options of `lengthprior`."""

    owner: ClassVar[str] = "lengthprior"


METHOD = Method(
    "lengthprior",
    "first-stage score plus the logarithm of the document's length",
    LengthPriorSettings,
    "length_prior:LengthPrior",
    artefacts=("length_prior:PRIORS",),
)


class LengthPrior(Reranker[LengthPriorSettings]):
    """Adds a prior per document, computed by `fit`."""

    method = METHOD

    def __init__(self, index, **options):
        super().__init__(index, **options)
        folder = index.artefacts / "lengthprior"
        self.priors = artefacts.load(folder, PRIORS.name, 1, fingerprint=index.fingerprint, validate=check)[1]["priors"]

    @classmethod
    def fit(cls, index, data, settings):
        folder = data.output or index.artefacts / "lengthprior"
        save(folder, np.log1p(np.diff(index.forward.indptr)), index)
        return folder

    def score(self, query, candidates, context=DEFAULT_CONTEXT):
        return candidates.scores + self.priors[candidates.docs]


def save(folder, priors, index):
    artefacts.save(folder, PRIORS.name, 1, arrays={"priors": priors}, fingerprint=index.fingerprint)


def check(meta, arrays):
    """Refuses priors that are not positive numbers."""
    if not (arrays["priors"] > 0).all():
        raise ValueError("priors: not positive")


def follow(change):
    """Documents that remain keep their prior, new ones get 1."""
    saved = artefacts.load(change.folder, PRIORS.name, 1, fingerprint=change.old.fingerprint)[1]["priors"]
    rows = change.old.forward.rows_of(change.new.forward.docids.take(np.arange(len(change.new.forward))))
    save(change.target, np.where(rows >= 0, saved[np.maximum(rows, 0)], 1.0), change.new)
    return f"has priors for {int((rows >= 0).sum())} documents"


PRIORS = ArtefactKind("length priors", 1, "train {flags} --rerank lengthprior", "lengthprior", validate=check, follow=follow)
