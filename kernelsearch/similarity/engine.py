"""Documents similar to a document: candidates by terms and by latent vectors, ranked by a fusion of document kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.learning.ranking.lists import Lists, normalise_features
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.explanations import Contribution, Explanation, Feature
from kernelsearch.rerankers.fusion import model as models
from kernelsearch.rerankers.fusion.learners import fit_learner, log_choice, make_learner
from kernelsearch.similarity.latent import LatentSpace
from kernelsearch.similarity.pair_kernels import PairKernels, default_recipe

Floats = NDArray[np.float64]
#: {docid: docids of the documents known to be similar}.
Truth = Mapping[str, set[str]]

#: Number of a document's terms in the query that searches for similar ones (more like this).
TERMS = 25


class SimilarDocuments:
    """Finds documents similar to a document of the index.

    Candidates are the best `depth` documents for the document's strongest terms, the `depth` nearest in the latent space, and
    those nearest by the vectors that the kernels name.
    They are ranked by document kernels (`kernels`, by name; default: `default_recipe`), with equal weights (CombSUM) or with
    those of a trained `model`, a folder that `fit` saved.
    """

    def __init__(
        self, index: OpenedIndex, *, kernels: Sequence[str] | None = None, model: str | Path | None = None, depth: int = 100
    ) -> None:
        self.index, self.depth = index, depth
        self.model = index.opened(models.load, Path(model)) if model is not None else None
        self.recipe = self.model.recipe if self.model else tuple(kernels or default_recipe(index))
        self.learner: Learner = self.model.learner if self.model else CombSUM(normalise="none")
        self.kernels = PairKernels(index, self.recipe, Flag("model" if self.model else "kernels"))
        self._latent = LatentSpace(index) if LatentSpace.available(index) else None

    def find(self, docid: str, top: int = 10) -> list[tuple[str, float]]:
        """(docid, score) of the `top` most similar documents, best first.

        Raises an error for an unknown docid, and InputError for a document without a vector where only vectors are compared.
        """
        row = self.index.row(docid, "docid")
        if self.kernels.lacks_vectors(row):
            raise InputError(f"{docid} has no vector, and {', '.join(self.recipe)} compares vectors only", option=Flag("docid"))
        ranked = self.ranked(row)
        return list(zip(self.index.forward.docids.take(ranked.docs[:top]), ranked.scores[:top].tolist(), strict=True))

    def ranked(self, doc: int) -> Candidates:
        """The candidates of the document in row `doc`, most similar first; ties in docid order."""
        docs, table = self.table(doc)
        scores = self.learner.predict(table)
        order = np.lexsort((self.index.forward.docid_rank[docs], -scores))
        return Candidates(docs[order], scores[order])

    def candidates(self, doc: int) -> NDArray[np.int32]:
        """Rows of documents that share strong terms with that in row `doc` or are near it in the latent space; never itself."""
        sources = [self.index.lucene.search([self.terms(doc)], self.depth + 1)[0].docs]
        if self._latent is not None:
            sources.append(self._latent.nearest(doc, self.depth))
        sources += self.kernels.nearest(doc, self.depth)
        docs = np.unique(np.concatenate(sources)).astype(np.int32)
        return np.asarray(docs[(docs != doc) & self.index.forward.live[docs]])

    def terms(self, doc: int) -> Query:
        """The strongest terms by tf·idf of the document in row `doc`, as a weighted query."""
        forward = self.index.forward
        row = slice(int(forward.indptr[doc]), int(forward.indptr[doc + 1]))
        numbers = np.asarray(forward.indices[row])
        weights = forward.frequencies[row] * ranking_models.idf(forward.df[numbers], forward.statistics.documents)
        best = np.argsort(-weights, kind="stable")[:TERMS]
        return Query("", tuple(forward.terms.take(numbers[best])), tuple(float(weight) for weight in weights[best]))

    def table(self, doc: int) -> tuple[NDArray[np.int32], Floats]:
        """The candidates of the document in row `doc` and their kernel values, z-scored, shape (candidates, kernels)."""
        docs = self.candidates(doc)
        if not len(docs):
            return docs, np.zeros((0, len(self.recipe)))
        return docs, normalise_features(self.kernels.table(doc, docs), Lists.of(np.zeros(len(docs), dtype=np.int64)), "z")

    def explain(self, docid: str, other: str) -> Explanation:
        """Each kernel's part of the similarity of `other` to `docid`; raises InputError where it isn't a candidate."""
        docs, table = self.table(self.index.row(docid, "docid"))
        place = np.flatnonzero(docs == self.index.row(other, "explain"))
        if not len(place):
            raise InputError(f"{other!r} is not among the {len(docs)} candidates of {docid!r}", option=Flag("explain"))
        parts = self.learner.contributions(table)[place[0]]
        order = np.argsort(-np.abs(parts), kind="stable")
        contributions = tuple(Contribution(Feature(self.recipe[number]), float(parts[number])) for number in order)
        shares = self.model.importance() if self.model else np.full(len(self.recipe), 1 / len(self.recipe))
        overall = {name: round(float(share), 4) for name, share in zip(self.recipe, shares, strict=True)}
        return Explanation("similar", other, float(parts.sum()), contributions, {"importance": overall})

    def training_table(
        self, truth: Truth, limit: int | None = None, random_state: int = 0
    ) -> tuple[Floats, Floats, NDArray[Any]]:
        """(X, y, qid) over documents with similar ones by `truth`, at most `limit` of them, drawn with `random_state`.

        X is (rows, kernels), y (rows,) is 1 for similar candidates and 0 for others, qid (rows,) is the docid. Raises
        InputError where there is nothing to learn.
        """
        names = sorted(truth)
        if limit is not None and len(names) > limit:
            chosen = np.random.default_rng(random_state).choice(len(names), limit, replace=False)
            names = [names[number] for number in np.sort(chosen)]
        parts = []
        for name, doc in zip(names, self.index.forward.rows_of(names).tolist(), strict=True):
            if doc < 0:
                continue
            docs, table = self.table(doc)
            alike = np.isin(docs, self.index.forward.rows_of(sorted(truth[name])))
            if alike.any() and not alike.all():
                parts.append((table, alike.astype(np.float64), np.full(len(docs), name, dtype=object)))
        if not parts:
            raise InputError("training: no document has both similar and other candidates, so there is nothing to learn")
        X, y, qid = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return X, y, qid.astype(str)

    def fit(
        self, truth: Truth, output: str | Path, *, learner: str = "best", limit: int | None = 1000, random_state: int = 0
    ) -> Path:
        """Learns the kernels' weights from similar documents (`truth`), saves the model in `output`, and uses it from now on.

        `learner` is a name of `make_learner`; at most `limit` documents, drawn with `random_state`, are learned from. Returns
        the model's folder.
        """
        refuse_foreign(output)  # before the work, as the name of the learner
        unfitted = make_learner(learner, normalise="none", random_state=random_state)
        X, y, qid = self.training_table(truth, limit, random_state)
        fitted = fit_learner(unfitted, X, y, qid)
        count = len(np.unique(qid))
        log_choice(fitted, "similar", f"{count} documents")
        path = models.save(output, fitted, self.recipe, {"documents": count, "rows": len(y)})
        self.model = models.load(path)
        self.learner = self.model.learner
        return path


def truth_from_groups(groups: Iterable[Iterable[str]]) -> dict[str, set[str]]:
    """Known similar documents from groups: {docid: the other members of its groups}.

    A group are the documents that were judged relevant to one topic, or clicked for one query.
    """
    truth: dict[str, set[str]] = {}
    for group in groups:
        members = set(group)
        for name in members:
            truth.setdefault(name, set()).update(members - {name})
    return {name: others for name, others in truth.items() if others}
