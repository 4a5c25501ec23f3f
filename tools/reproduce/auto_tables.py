"""The conditions that `auto` is chosen and measured on: topics of one kind on one collection, with their candidates' features.

Features are computed once and cached in a scratch folder, as they are before normalisation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import effective_documents, posterior_weights
from kernelsearch.kernels.tfidf import TfidfVectors, vocabulary_idf
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.auto.reranker import MATCHED
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.features.reordered import ReadFeature
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.recipes import CERTAINTY, MATCH, PLAIN, READ_CERTAINTY, READING_WEIGHTS
from kernelsearch.rerankers.fusion.recipes import READ_FEEDBACK as FEEDBACK
from tools.data.datasets import DATASETS, Judgements, Topics, judged_topics, open_index
from tools.data.made_topics import Documents, abstracts, conclusions, known_items, posts, read_corpus, titles
from tools.reproduce.vectors_long import join_judgements, related_groups

Floats = NDArray[np.float64]

#: Candidates per source; the most topics of a collection's own and of made ones; the fewest made ones, abstracts apart.
DEPTH, TOPICS, MADE, FEWEST = 500, 250, 600, 100
#: The collection on whose noisy known items feedback loses most, measured again on so many topics.
LARGER_CORPUS, LARGER = "npl", 2400
#: The collection whose documents are short as they are.
NATURALLY_SHORT = "npl"
#: Documents that are joined to a long one; words that are left of a short one, about as many as documents of npl have.
PARTS, SHORT = 4, 44
OWN_TOPICS = {
    "cran": "topical", "cacm": "topical", "cisi": "topical", "npl": "topical", "nfcorpus dev": "topical", "nfcorpus": "topical",
    "scifact train": "claims", "scifact": "claims", "zerozero": "clicks",
}  # fmt: skip
CORPORA = ("cran", "cacm", "cisi", "npl", "nfcorpus", "scifact")
KINDS = (
    "topical", "long documents", "short documents", "abstracts", "claims", "clicks", "known items", "noisy known items",
    "posts", "titles", "conclusions", "claims, short documents", "known items, short documents",
    "noisy known items, short documents", "posts, short documents",
)  # fmt: skip

#: Kinds with several relevant documents per topic; the others have one, or few.
TOPICAL = ("topical", "long documents", "short documents", "abstracts")

#: The multi-scale language model without the first stage's score, and the share that `mslm` gives it.
LEVELS, MIX = "mslm:mix=1", 0.5
#: `rm` and `top` with the sharpness of feedback by the first stage's scores.
SOFT_FEEDBACK = (f"read:{MATCH}/rm", f"read:{MATCH}/top:docs=20,sharpness=5")
RECIPE = (
    PLAIN, LEVELS, "bm25:field=title", *SOFT_FEEDBACK, f"read:{MATCH}/klsa:lambda=1", CERTAINTY,
    "rm", "top:docs=20,sharpness=5", "klsa:lambda=1", f"read:{MATCH}/posterior:sharpness=5", READ_CERTAINTY,
    "cosine", "rm3", "pert", "klsa", "bm25:k1=1.2,b=0.75", "bm25:k1=2,b=0.75", "cosine:field=title",
    f"read:{MATCH}/rm:k1=1.2,b=0.75", f"read:{MATCH}/rm:sharpness=10", f"read:{MATCH}/top:docs=20,sharpness=10",
)  # fmt: skip

#: `auto` with the first stage's score in the place of the match, as weights of the columns of RECIPE.
AUTO_SUM = tuple(READING_WEIGHTS[MATCH] if name == PLAIN else READING_WEIGHTS.get(name, 0.0) for name in RECIPE)

#: Sums that choose whom the language model is computed for: the best MATCHED of each. Weights of the first columns of RECIPE.
WIDE = (
    (1.0,), (2, 0, 1, 1, 1, 1, 0.5), (2, 0, 0, 1, 1, 1, 0.5), (2, 0, 1, 0.3, 0.3, 0.3, 0), (2, 0, 0.3, 2, 2, 2, 0), AUTO_SUM,
)  # fmt: skip

#: What is known of a query before feedback: its number of terms; the idf-weighted share of them in the best document; how many
#: documents the posterior amounts to; the mean cosine between two feedback documents.
EVIDENCE = ("terms", "coverage", "effective", "cohesion")


@dataclass(frozen=True)
class Condition:
    """Topics of one kind on one corpus, with those candidates that the language model was computed for.

    `tables` (topics, candidates, features) holds the features and `whole` the same z-scored within the topic's whole pool; both
    are padded. `present` and `relevant`, (topics, candidates), say which candidates exist and are relevant. The others of a
    pool follow in `auto`'s order and add `rest` to AP. Candidates are in the first stage's order, in which ties are broken.
    """

    name: str
    kind: str
    corpus: str
    tables: NDArray[np.float32]
    whole: NDArray[np.float32]
    present: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    rest: Floats
    totals: NDArray[np.int64]
    evidence: Floats  #: shape (topics, EVIDENCE)
    alone: Mapping[str, Floats]  #: AP per topic of the whole pool by one feature

    @property
    def base(self) -> Floats:
        """AP per topic of the first stage."""
        return self.alone[PLAIN]

    def order(
        self,
        weights: Mapping[str, float],
        gate: Floats | None = None,
        shape: Callable[[Floats], Floats] | None = None,
        factor: float | None = None,
    ) -> NDArray[np.int64]:
        """The candidates of each topic, best first, by a weighted sum of z-scores, shape (topics, candidates).

        As in `auto`, the language model takes the place of the first stage's score among the best MATCHED documents. `gate`
        multiplies the weights of feedback per topic, `shape` changes z-scores, and `factor` is that of a bound on feedback
        (`kernelsearch.rerankers.auto.bound`).
        """
        names = [name for name, weight in weights.items() if weight and name != MATCH]
        columns = [RECIPE.index(name) for name in names]
        factors = np.tile(np.array([weights[name] for name in names]), (len(self.totals), 1))
        if gate is not None:
            factors = np.where([name in FEEDBACK for name in names], factors * gate[:, None], factors)
        match = weights.get(MATCH, 0.0)
        values = self.whole[:, :, columns].astype(np.float64)
        values = shape(values) if shape else values
        scores = np.einsum("tcf,tf->tc", values, factors) + match * self.whole[:, :, 0]
        order = np.argsort(np.where(self.present, -scores, np.inf), axis=1, kind="stable")
        if match:
            best = order[:, :MATCHED]
            best_present = np.take_along_axis(self.present, best, axis=1)
            raw = self.tables[np.arange(len(best))[:, None], best][:, :, [0, 1, *columns]].astype(np.float64)
            table = standardised(raw, best_present)
            levels = standardised((table[:, :, :1] * (1 - MIX) + table[:, :, 1:2] * MIX), best_present)[:, :, 0]
            values = shape(table[:, :, 2:]) if shape else table[:, :, 2:]
            scores_of_best = np.einsum("tcf,tf->tc", values, factors) + match * levels
            order_of_best = np.argsort(np.where(best_present, -scores_of_best, np.inf), axis=1, kind="stable")
            if factor is not None:
                by_match = np.argsort(np.where(best_present, -levels, np.inf), axis=1, kind="stable")
                order_of_best = bounded(order_of_best, by_match, factor)
            order[:, :MATCHED] = np.take_along_axis(best, order_of_best, axis=1)
        return order

    def ap(
        self,
        weights: Mapping[str, float],
        gate: Floats | None = None,
        shape: Callable[[Floats], Floats] | None = None,
        factor: float | None = None,
    ) -> Floats:
        """AP per topic of a weighted sum; the parameters are those of `order`."""
        if len(weights) == 1 and MATCH not in weights:
            return self.alone[next(iter(weights))]
        order = self.order(weights, gate, shape, factor)
        hits = np.take_along_axis(self.relevant, order, axis=1)
        precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
        return np.asarray((precision * hits).sum(axis=1) / self.totals + self.rest)

    def gain(self, values: Floats) -> float:
        """The relative change in MAP over the first stage; `values` is AP per topic."""
        return float(values.mean() / self.base.mean() - 1)

    def error(self, values: Floats) -> float:
        """The standard error of `gain`, from the differences per topic; `values` is AP per topic."""
        return float((values - self.base).std() / np.sqrt(len(values)) / self.base.mean())


def bounded(by_sum: NDArray[np.int64], by_match: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """The order of candidates by the better one of their place by sum and `factor` times that by match.

    `by_sum`, `by_match` and the result have shape (topics, candidates), best first. Equal places are in the order of `by_sum`.
    """
    sum_place, match_place = np.argsort(by_sum, axis=1) + 1, np.argsort(by_match, axis=1) + 1
    return np.lexsort((sum_place, np.minimum(sum_place, factor * match_place)), axis=1)


def standardised(tables: Floats, present: NDArray[np.bool_]) -> Floats:
    """z-scores of `tables` per topic and feature, shape (topics, candidates, features).

    Candidates that are not `present` (topics, candidates) are left out of mean and deviation; they and constant features get 0.
    """
    count = np.maximum(present.sum(axis=1), 1)[:, None]
    tables = np.where(present[:, :, None], tables, 0.0)
    centred = np.where(present[:, :, None], tables - (tables.sum(axis=1) / count)[:, None], 0.0)
    deviation = np.sqrt((centred**2).sum(axis=1) / count)
    return np.asarray(centred / np.where(deviation > 1e-9, deviation, np.inf)[:, None])


def compute_conditions(collections: Path, scratch: Path) -> Iterator[Condition]:
    """All conditions, one after the other, from the files below `collections`.

    Their features come from the folder `scratch` where they were computed before.
    """
    for name, kind in OWN_TOPICS.items():
        dataset = DATASETS[name]
        index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
        yield measured(name, kind, name.partition(" ")[0], index, *dataset.read(collections), scratch)
    for corpus in CORPORA:
        dataset = DATASETS[corpus]
        if OWN_TOPICS[corpus] == "topical":
            topics, qrels = dataset.read(collections)
            documents = read_corpus(collections / dataset.folder / dataset.corpus)
            long, qrels = long_documents(documents, qrels, collections / dataset.folder / "minilm")
            index = corpus_index(long, scratch, f"{corpus}-long-documents")
            yield measured(f"{corpus}, long documents", "long documents", corpus, index, topics, qrels, scratch)
    for corpus in CORPORA:
        yield from made_conditions(corpus, collections, scratch)
    for corpus in CORPORA:
        if corpus != NATURALLY_SHORT:
            yield from short_conditions(corpus, collections, scratch)


def made_conditions(corpus: str, collections: Path, scratch: Path, draw: int = 0) -> Iterator[Condition]:
    """The topics that are made from the documents of a collection.

    `corpus` is the collection's name. `draw` chooses other sentences and words, by other seeds, without the abstracts, of which
    there is one draw. The other parameters are those of `compute_conditions`.
    """
    dataset, other = DATASETS[corpus], 1000 * draw
    suffix = f", draw {draw + 1}" if draw else ""
    index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
    documents = read_corpus(collections / dataset.folder / dataset.corpus)
    for kind, (topics, qrels) in (
        ("known items", known_items(documents, MADE, seed=7 + other, codes=False)),
        ("noisy known items", known_items(documents, MADE, 5, seed=7 + other, codes=False)),
        ("posts", posts(documents, MADE, seed=11 + other)),
    ):
        yield measured(f"{corpus}, {kind}{suffix}", kind, corpus, index, topics, qrels, scratch, most=MADE)
    made = {
        "titles": titles(documents, MADE, seed=3 + other),
        "conclusions": conclusions(documents, MADE, seed=5 + other, codes=False),
    }
    made = {kind: parts for kind, parts in made.items() if len(parts[1]) >= FEWEST}
    if OWN_TOPICS[corpus] == "topical" and not draw:
        made["abstracts"] = abstracts(documents, dataset.read(collections)[1], MADE)
    for kind, (bodies, topics, qrels) in made.items():
        index = corpus_index(bodies, scratch, f"{corpus}-{kind}")
        yield measured(f"{corpus}, {kind}{suffix}", kind, corpus, index, topics, qrels, scratch, most=MADE)


def short_conditions(corpus: str, collections: Path, scratch: Path) -> Iterator[Condition]:
    """The collection's own training topics, known items and posts on the first SHORT words of its documents.

    `corpus` is the collection's name; the other parameters are those of `compute_conditions`.
    """
    dataset = DATASETS[corpus]
    documents = [
        {"id": document["id"], "contents": " ".join(document["contents"].split()[:SHORT])}
        for document in read_corpus(collections / dataset.folder / dataset.corpus)
    ]
    index = corpus_index(documents, scratch, f"{corpus}-short-documents")
    own = next((name for name in OWN_TOPICS if name.partition(" ")[0] == corpus and name != corpus), corpus)
    kind = "short documents"
    topics, qrels = DATASETS[own].read(collections)
    own_kind = kind if OWN_TOPICS[own] == "topical" else f"{OWN_TOPICS[own]}, {kind}"
    yield measured(f"{own}, {kind}", own_kind, corpus, index, topics, qrels, scratch)
    for name, (topics, qrels) in (
        ("known items", known_items(documents, MADE, codes=False)),
        ("noisy known items", known_items(documents, MADE, 5, codes=False)),
        ("posts", posts(documents, MADE)),
    ):
        yield measured(f"{corpus}, {name}, {kind}", f"{name}, {kind}", corpus, index, topics, qrels, scratch, most=MADE)


def larger_condition(collections: Path, scratch: Path) -> Condition:
    """The noisy known items of LARGER_CORPUS, LARGER of them, among which are those of `compute_conditions`.

    The parameters are its, too.
    """
    dataset, kind = DATASETS[LARGER_CORPUS], "noisy known items"
    index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
    topics, qrels = known_items(read_corpus(collections / dataset.folder / dataset.corpus), LARGER, 5, codes=False)
    name = f"{LARGER_CORPUS}, {kind}, {LARGER} topics"
    return measured(name, kind, LARGER_CORPUS, index, topics, qrels, scratch, most=LARGER)


def long_documents(documents: Documents, qrels: Judgements, folder: Path) -> tuple[Documents, Judgements]:
    """Related `documents` joined to long ones, PARTS in each, and the judgements of these, from `qrels`.

    `folder` has corpus.npz with a vector per document.
    """
    stored = np.load(folder / "corpus.npz")
    ids, texts = stored["ids"].tolist(), {str(document["id"]): document["contents"] for document in documents}
    groups = related_groups(stored["vectors"].astype(np.float32), PARTS, np.random.default_rng(0))
    long = [
        {"id": f"long{number}", "contents": "\n".join(texts[ids[row]] for row in group)} for number, group in enumerate(groups)
    ]
    joined = {ids[row]: f"long{number}" for number, group in enumerate(groups) for row in group.tolist()}
    return long, join_judgements(qrels, joined)


def corpus_index(documents: Documents, scratch: Path, name: str) -> kernelsearch.Index:
    """The index of made `documents`, built in `scratch` under `name` where it is missing."""
    source = scratch / f"{name}.jsonl"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return open_index(scratch / "indexes" / name, source)


def measured(
    name: str,
    kind: str,
    corpus: str,
    index: kernelsearch.Index,
    topics: Topics,
    qrels: Judgements,
    scratch: Path,
    most: int = TOPICS,
) -> Condition:
    """The condition of a kind's judged topics, at most `most` of them, drawn by chance; features are cached in `scratch`.

    Parameters
    ----------
    name : the name of the condition, unique
    kind : one of KINDS
    corpus : the collection that the documents are from
    index : the index of the documents
    topics : texts by topic id
    qrels : their judgements
    scratch : the folder of the cache
    most : the largest number of topics
    """
    cache = scratch / "tables" / f"{name.replace(', ', '-').replace(' ', '-')}.npz"
    if not cache.exists():
        qids = judged_topics(topics, qrels)
        if len(qids) > most:
            qids = [qids[place] for place in sorted(np.random.default_rng(1).permutation(len(qids))[:most])]
        saved = computed(index, index.lucene.queries([topics[qid] for qid in qids], qids), qrels)
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(cache, recipe=np.array(RECIPE), **saved)  # type: ignore[arg-type]
        print(f"{name}: {len(qids)} topics", flush=True)
    with np.load(cache) as data:
        if tuple(data["recipe"]) != RECIPE:
            raise SystemExit(f"{cache}: features of another recipe; remove {scratch}")
        return loaded(name, kind, corpus, data)


def computed(index: kernelsearch.Index, queries: list[Query], qrels: Judgements) -> dict[str, NDArray[np.generic]]:
    """Per topic n the features of its candidates, "Xn", which ones are relevant, "rn", and together `totals` and `evidence`.

    `queries` are searched for in `index`, `qrels` has their judgements. The language model, the slowest feature, is computed
    for the best of the sums in WIDE alone and is NaN elsewhere.
    """
    features = Features(index, RECIPE, sources=("rm",))
    levels, reading = features.features[1], features.features[RECIPE.index(FEEDBACK[0])]
    assert isinstance(reading, ReadFeature)
    sums = np.array([[*weights, *(len(RECIPE) - len(weights)) * (0.0,)] for weights in WIDE])
    saved: dict[str, NDArray[np.generic]] = {}
    totals: list[int] = []
    evidence = []
    for start in range(0, len(queries), 16):
        batch = queries[start : start + 16]
        listed = features.pool(batch, index.lucene.search(batch, 1000), DEPTH)
        pools = [Pool(index, query, candidates) for query, candidates in zip(batch, listed, strict=True)]
        columns = [feature.values(pools) for place, feature in enumerate(features.features) if place != 1]
        for number, pool in enumerate(pools):
            table = np.column_stack([column[number] for column in columns])
            table = np.insert(table, 1, 0.0, axis=1)
            if pool.depth:
                best = np.unique(np.argsort(-(sums @ zscores(table).T), axis=1, kind="stable")[:, :MATCHED])
                best_candidates = Candidates(pool.candidates.docs[best], pool.candidates.scores[best])
                table[:, 1] = np.nan
                table[best, 1] = levels.values([Pool(index, pool.query, best_candidates)])[0]
            grades, place = qrels[pool.query.qid], len(totals)
            docids = index.forward.docids.take(pool.candidates.docs)
            saved[f"X{place}"] = table.astype(np.float32)
            saved[f"d{place}"] = pool.candidates.docs
            saved[f"r{place}"] = np.array([grades.get(docid, 0) > 0 for docid in docids], dtype=bool)
            totals.append(sum(grade > 0 for grade in grades.values()))
            evidence.append(query_evidence(index, pool.query, reading.ranked(pool)[0].candidates))
    return {**saved, "totals": np.array(totals), "evidence": np.array(evidence)}


def query_evidence(index: kernelsearch.Index, query: Query, ranked: Candidates) -> list[float]:
    """The figures that EVIDENCE names, for a `query`; `ranked` are the feedback documents, best first, rows of `index`."""
    forward, weights = index.forward, posterior_weights(ranked.scores)
    if not len(weights):
        return [float(len(query.terms)), 0.0, 0.0, 0.0]
    terms = np.asarray(forward.term_ids(query.terms))
    rarest = float(np.log(1 + (forward.statistics.documents + 0.5) / 0.5))  # Lucene's idf of a term that occurs nowhere
    idf = np.where(terms >= 0, vocabulary_idf(forward)[np.maximum(terms, 0)], rarest) * np.array(query.weights)
    occurs = forward.term_frequencies(ranked.docs[:1], terms)[0] > 0
    vectors = TfidfVectors(forward, ranked.docs[: len(weights)])
    unit = vectors.matrix.multiply(vectors.inverse_norms[:, None]).tocsr()
    pairs = np.outer(weights, weights)
    np.fill_diagonal(pairs, 0.0)
    cohesion = float((pairs * (unit @ unit.T).toarray()).sum() / max(pairs.sum(), 1e-9))
    coverage = float(idf[occurs].sum() / max(idf.sum(), 1e-9))
    return [float(len(terms)), coverage, effective_documents(weights), cohesion]


def loaded(name: str, kind: str, corpus: str, data: Mapping[str, NDArray[np.generic]]) -> Condition:
    """A condition with this `name`, `kind` and `corpus` from its cached features `data`, as `computed` returns them."""
    totals = np.asarray(data["totals"], dtype=np.int64)
    count = len(totals)
    features = [np.asarray(data[f"X{number}"], dtype=np.float32) for number in range(count)]
    marks = [np.asarray(data[f"r{number}"], dtype=bool) for number in range(count)]
    places = [np.flatnonzero(~np.isnan(table[:, 1])) for table in features]
    longest = max(map(len, places))
    tables, whole = (np.zeros((count, longest, len(RECIPE)), dtype=np.float32) for _ in range(2))
    present, relevant = (np.zeros((count, longest), dtype=bool) for _ in range(2))
    rest, alone = np.zeros(count), {feature: np.zeros(count) for feature in RECIPE}
    wide = np.array(AUTO_SUM)
    for number, (table, right, best) in enumerate(zip(features, marks, places, strict=True)):
        if not len(table):
            continue
        scaled, size = zscores(np.nan_to_num(table, nan=float(np.nanmin(table[:, 1])))), len(best)
        tables[number, :size], whole[number, :size] = table[best], scaled[best]
        present[number, :size], relevant[number, :size] = True, right[best]
        others = np.setdiff1d(np.arange(len(table)), best)
        others = others[np.argsort(-(scaled[others] @ wide), kind="stable")]
        ranks = np.flatnonzero(right[others])
        rest[number] = ((right[best].sum() + 1 + np.arange(len(ranks))) / (size + 1 + ranks)).sum() / totals[number]
        for column, feature in enumerate(RECIPE):
            ranks = np.flatnonzero(right[np.argsort(-scaled[:, column], kind="stable")])
            alone[feature][number] = (np.arange(1, len(ranks) + 1) / (ranks + 1)).sum() / totals[number]
    evidence = np.asarray(data["evidence"], dtype=np.float64)
    return Condition(name, kind, corpus, tables, whole, present, relevant, rest, totals, evidence, alone)
