"""Multi-scale text kernels for classification, as a scikit-learn transformer.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010), Section 4.1: texts are brought to one length,
smoothed at each scale, and each level gives one kernel between words × positions matrices: Frobenius product, Gaussian RBF
or Jensen-Shannon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelsearch.kernels.pyramid.matching import phi
from kernelsearch.kernels.pyramid.text_pyramid import SCALES
from kernelsearch.kernels.semantic.graph import SemanticGraph, cooccurrence_graph
from kernelsearch.papers.mslm.text_levels import interpolated_operator

KERNELS = ("frobenius", "rbf", "js")
PYRAMIDS = ("gaussian", "laplacian")
Array = NDArray[np.float64]


class MultiScaleKernel(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Kernels between texts at the levels of the language pyramid.

    `fit` learns the vocabulary, a graph of related words and (for RBF) each level's width from the training texts;
    `transform` gives the kernel between new texts and the training texts, shape (texts, training texts), for
    `SVC(kernel="precomputed")`. With `combine="stack"` it gives one kernel per level, shape (texts, training texts, levels),
    for `BemMKL` or `SimpleMKL`, which weigh and add them.

    Parameters
    ----------
    scales : scales along positions; inf is the bag of words
    semantic_scales : scales along words, one per level; None takes `scales`, as the paper does
    kernel : "frobenius", "rbf" or "js"
    pyramid : "gaussian", the smoothed codes, or "laplacian", the differences of successive ones (Section 3), one level less;
        differences are no distributions, so that "js" can't compare them
    columns : length that texts are interpolated to
    width : the window's width T; 0 takes what the scale needs
    weighting : mass of a word, "none" (the binary code) or "idf"
    combine : "sum" of the levels, or "stack"
    normalize : cosine normalisation of Frobenius kernels, so that every level has ones on its diagonal
    gamma : RBF's factor; None takes one over the mean squared distance of training texts, level by level
    max_words : number of words to keep, those in most texts; None keeps all
    neighbours, window, min_count, common : the word graph, see `cooccurrence_graph`
    graph_texts : further texts without labels to learn the word graph from
    similarities : (word, word, similarity in (0, 1]) of related words, which make the graph instead of the texts; words that
        the training texts don't have are left out
    eta : Dirichlet smoothing of the binary code before the windows, x⁰ = (η/MN + x)/(1 + η) for M words and N positions
    analyzer : a function from a text to its words; None splits at everything that isn't a letter or digit, in lower case

    Attributes
    ----------
    vocabulary_ : word -> number; graph_ : SemanticGraph; levels_ : the training texts' codes, one sparse matrix per level

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(MultiScaleKernel(kernel="js", min_count=1), SVC(kernel="precomputed"))
    >>> model.fit(["red car", "fast car", "green pear", "ripe pear"], [0, 0, 1, 1]).predict(["a pear"])
    array([1])
    """

    def __init__(
        self,
        *,
        scales: Sequence[float] = SCALES,
        semantic_scales: Sequence[float] | None = None,
        kernel: str = "frobenius",
        pyramid: str = "gaussian",
        columns: int = 8,
        width: int = 5,
        weighting: str = "none",
        combine: str = "sum",
        normalize: bool = True,
        gamma: float | None = None,
        max_words: int | None = None,
        neighbours: int = 20,
        window: int = 5,
        min_count: int = 2,
        common: float = 0.1,
        graph_texts: Sequence[str] | None = None,
        similarities: Sequence[tuple[str, str, float]] | None = None,
        eta: float = 0.0,
        analyzer: Callable[[str], list[str]] | None = None,
    ) -> None:
        self.scales = scales
        self.semantic_scales = semantic_scales
        self.kernel = kernel
        self.pyramid = pyramid
        self.columns = columns
        self.width = width
        self.weighting = weighting
        self.combine = combine
        self.normalize = normalize
        self.gamma = gamma
        self.max_words = max_words
        self.neighbours = neighbours
        self.window = window
        self.min_count = min_count
        self.common = common
        self.graph_texts = graph_texts
        self.similarities = similarities
        self.eta = eta
        self.analyzer = analyzer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = False, True
        return tags

    def fit(self, X: Sequence[str], y: Any = None) -> MultiScaleKernel:
        """Learns from the training texts `X`; the labels `y` aren't used.

        Raises ValueError where there are no texts, and for parameters that don't fit each other.
        """
        self._check()
        words = [self._words(text) for text in X]
        if not len(words):
            raise ValueError("no texts to fit on")
        self.vocabulary_ = _vocabulary(words, self.max_words)
        more = [self._words(text) for text in self.graph_texts or ()]
        numbers = _numbered(words + more, self.vocabulary_)
        source = WordTexts.of(numbers, len(self.vocabulary_))
        self.graph_: SemanticGraph = self._graph(source)
        self.idf_: Array = np.log((1 + len(source.lengths)) / (1 + source.df)) + 1
        self.levels_ = self._codes(numbers[: len(words)])
        self.gamma_ = [self.gamma or _inverse_spread(level) * (1 + self.eta) ** 2 for level in self.levels_]
        return self

    def transform(self, X: Sequence[str]) -> Array:
        """Kernels between the texts `X` and the training texts; the class describes the shapes.

        Raises NotFittedError before a fit.
        """
        check_is_fitted(self, "levels_")
        numbers = _numbered([self._words(text) for text in X], self.vocabulary_)
        codes = self._codes(numbers)
        kernels = [
            self._kernel(level, known, gamma, self._background(number) if self.eta else None)
            for number, (level, known, gamma) in enumerate(zip(codes, self.levels_, self.gamma_, strict=True))
        ]
        return np.stack(kernels, axis=2) if self.combine == "stack" else np.mean(kernels, axis=0)

    def _check(self) -> None:
        choices = {"kernel": KERNELS, "pyramid": PYRAMIDS, "combine": ("sum", "stack"), "weighting": ("none", "idf")}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}")
        if self.pyramid == "laplacian" and (self.kernel == "js" or len(self.scales) < 2):
            raise ValueError("pyramid='laplacian' needs two scales or more and kernel='frobenius' or 'rbf'")
        if not 0 <= self.eta < np.inf:
            raise ValueError(f"eta={self.eta!r} is not a finite number, 0 or more")
        if self.semantic_scales is not None and len(self.semantic_scales) != len(self.scales):
            raise ValueError(f"{len(self.scales)} scales but {len(self.semantic_scales)} semantic_scales")

    def _graph(self, source: WordTexts) -> SemanticGraph:
        if self.similarities is None:
            return cooccurrence_graph(
                source, neighbours=self.neighbours, window=self.window, min_count=self.min_count, common=self.common
            )
        known = [
            (self.vocabulary_[first[0]], self.vocabulary_[second[0]], similarity)
            for first, second, similarity in ((self._words(a), self._words(b), value) for a, b, value in self.similarities)
            if len(first) == len(second) == 1 and first[0] in self.vocabulary_ and second[0] in self.vocabulary_
        ]
        if not known:
            return SemanticGraph.empty(len(self.vocabulary_))
        left, right, similarity = (np.array(column) for column in zip(*known, strict=True))
        return SemanticGraph.from_edges(len(self.vocabulary_), left, right, similarity)

    def _background(self, level: int) -> Array:
        """The code at a level of the uniform distribution over words and positions, shape (columns × words,).

        Windows leave it uniform over positions; over words it isn't: a word receives from all its neighbours, and S has columns
        of mass one, not rows.
        """

        def smoothed(number: int) -> Array:
            semantic = (self.semantic_scales or self.scales)[number]
            received = np.asarray(self.graph_.operator(semantic).sum(axis=1)).ravel()
            columns = self._width(number)
            return np.tile(received / (self.graph_.words * columns), columns)

        return smoothed(level) - smoothed(level + 1) if self.pyramid == "laplacian" else smoothed(level)

    def _width(self, level: int) -> int:
        """The number of columns of a level: at scale ∞ all are alike, and one is enough unless levels are subtracted."""
        return self.columns if np.isfinite(self.scales[level]) or self.pyramid == "laplacian" else 1

    def _words(self, text: str) -> list[str]:
        return self.analyzer(text) if self.analyzer is not None else re.findall(r"\w+", text.lower())

    def _codes(self, texts: list[NDArray[np.int64]]) -> list[sparse.csr_matrix]:
        """Each level's codes as rows, shape (texts, columns × words); a text without known words is all zeros.

        Rows of the Gaussian pyramid have mass one, those of the Laplacian one, which are differences, mass zero.
        """
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        tokens = np.concatenate([*texts, np.zeros(0, dtype=np.int64)])
        mass = self.idf_[tokens] if self.weighting == "idf" else None
        codes = []
        for level, (scale, semantic) in enumerate(zip(self.scales, self.semantic_scales or self.scales, strict=True)):
            columns = self._width(level)
            window = interpolated_operator(lengths, columns, scale, self.width, mass=mass)
            spread = self.graph_.operator(semantic).T.tocsr()[tokens]
            code = sparse.csr_matrix(window @ spread)
            codes.append(code.reshape((len(texts), columns * self.graph_.words)).tocsr() / columns)
        if self.pyramid == "laplacian":
            return [sparse.csr_matrix(fine - coarse) for fine, coarse in pairwise(codes)]
        return codes

    def _kernel(self, first: sparse.csr_matrix, second: sparse.csr_matrix, gamma: float, background: Array | None) -> Array:
        """The kernel of a level between codes (c + η b)/(1 + η): c are rows of `first` and `second`, b is None without η."""
        if self.kernel == "js":
            if background is None:
                return js_kernel(first, second)
            return smoothed_js_kernel(first / (1 + self.eta), second / (1 + self.eta), background * (self.eta / (1 + self.eta)))
        product: Array = (first @ second.T).toarray()
        norms = [np.asarray(side.multiply(side).sum(axis=1)).ravel() for side in (first, second)]
        if background is not None:
            sides = [self.eta * (side @ background) for side in (first, second)]
            constant = self.eta**2 * float(background @ background)
            product = (product + sides[0][:, None] + sides[1][None, :] + constant) / (1 + self.eta) ** 2
            norms = [(norm + 2 * side + constant) / (1 + self.eta) ** 2 for norm, side in zip(norms, sides, strict=True)]
        if self.kernel == "rbf":
            result: Array = np.exp(-gamma * np.maximum(norms[0][:, None] + norms[1][None, :] - 2 * product, 0.0))
            return result
        if self.normalize:
            product /= np.sqrt(np.outer(*(np.where(norm > 0, norm, 1.0) for norm in norms)))
        return product


def js_kernel(first: sparse.csr_matrix, second: sparse.csr_matrix) -> Array:
    """1 - JS / ln 2 between rows that sum to 1, shape (rows of first, rows of second).

    Positive semi-definite, with ones on the diagonal.

    A cell counts only where both rows have something, so the sum runs over shared cells.
    """
    columns = first.tocsc()
    own = sparse.csc_matrix((phi(columns.data), columns.indices, columns.indptr), shape=columns.shape)
    out = np.zeros((first.shape[0], second.shape[0]))
    for row in range(second.shape[0]):
        span = slice(second.indptr[row], second.indptr[row + 1])
        places, values = second.indices[span], second.data[span]
        part = columns[:, places]
        cells = np.repeat(values, np.diff(part.indptr))
        parts = phi(part.data + cells) - own[:, places].data - phi(cells)
        out[:, row] = np.bincount(part.indices, parts, first.shape[0])
    result: Array = out / (2 * np.log(2))
    return result


def smoothed_js_kernel(left: sparse.csr_matrix, right: sparse.csr_matrix, background: Array) -> Array:
    """As `js_kernel`, between rows to each of which `background` (cells,), positive, is added, without making them dense.

    `left` (n, cells) and `right` (m, cells) are the rows without it, the result has shape (n, m).

    With f(a, b) = φ(a + b) - φ(a) - φ(b) and the background β, the sum over cells is that of f(β, β), plus what the cells of
    one row change alone, plus what the cells that both rows have change together.
    """

    def joint(a: Array, b: Array) -> Array:
        result: Array = phi(a + b) - phi(a) - phi(b)
        return result

    def alone(side: sparse.csr_matrix) -> sparse.csr_matrix:
        beta = background[side.indices]
        change = joint(side.data + beta, beta) - joint(beta, beta)
        return sparse.csr_matrix((change, side.indices, side.indptr), shape=side.shape)

    left, right = sparse.csr_matrix(left), sparse.csr_matrix(right)
    sums = [np.asarray(alone(side).sum(axis=1)).ravel() for side in (left, right)]
    out = sums[0][:, None] + sums[1][None, :] + float(joint(background, background).sum())
    columns = left.tocsc()
    for row in range(right.shape[0]):
        span = slice(right.indptr[row], right.indptr[row + 1])
        places = right.indices[span]
        part = columns[:, places]
        counts = np.diff(part.indptr)
        beta, cells = np.repeat(background[places], counts), np.repeat(right.data[span] + background[places], counts)
        mine = part.data + beta
        both = joint(mine, cells) - joint(mine, beta) - joint(beta, cells) + joint(beta, beta)
        out[:, row] += np.bincount(part.indices, both, left.shape[0])
    result: Array = out / (2 * np.log(2))
    return result


def _inverse_spread(level: sparse.csr_matrix) -> float:
    """One over the mean squared distance between rows: 2 (mean ‖x‖² - ‖mean x‖²)."""
    mean = np.asarray(level.mean(axis=0)).ravel()
    spread = 2 * (float(level.multiply(level).sum()) / level.shape[0] - float(mean @ mean))
    return 1 / spread if spread > 0 else 1.0


@dataclass
class WordTexts:
    """Plain texts as the word graph reads a collection."""

    df: NDArray[np.int32]
    cf: NDArray[np.int64]
    lengths: NDArray[np.int32]
    live_docs: NDArray[np.int32]
    texts: list[NDArray[np.int64]]

    @classmethod
    def of(cls, texts: list[NDArray[np.int64]], words: int) -> WordTexts:
        """The `texts`, word numbers in reading order, each below `words`, the vocabulary's size."""
        cf, df = np.zeros(words, dtype=np.int64), np.zeros(words, dtype=np.int32)
        for text in texts:
            np.add.at(cf, text, 1)
            df[np.unique(text)] += 1
        lengths = np.array([len(text) for text in texts], dtype=np.int32)
        return cls(df, cf, lengths, np.arange(len(texts), dtype=np.int32), texts)

    def positions(self, docs: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """The tokens of the texts numbered `docs`: (indptr, words, positions), as `ForwardIndex.positions` returns them."""
        chosen = [self.texts[doc] for doc in docs]
        sizes = np.array([len(text) for text in chosen], dtype=np.int64)
        places = np.concatenate([*(np.arange(size) for size in sizes), np.zeros(0, dtype=np.int64)])
        words = np.concatenate([*chosen, np.zeros(0, dtype=np.int64)])
        return np.concatenate([[0], np.cumsum(sizes)]), words.astype(np.int32), places.astype(np.int32)


def _vocabulary(texts: list[list[str]], limit: int | None) -> dict[str, int]:
    """Words numbered in alphabetical order; of more than `limit`, those in most texts."""
    counts: dict[str, int] = {}
    for text in texts:
        for word in set(text):
            counts[word] = counts.get(word, 0) + 1
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[:limit]
    return {word: number for number, word in enumerate(sorted(frequent))}


def _numbered(texts: list[list[str]], vocabulary: dict[str, int]) -> list[NDArray[np.int64]]:
    return [np.array([vocabulary[word] for word in text if word in vocabulary], dtype=np.int64) for text in texts]
