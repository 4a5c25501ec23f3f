"""Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010): each equation densely, against the product.

Eqs. 5 and 7 motivate smoothing as an optimum on a graph; the paper uses Gaussian kernels (Eqs. 6 and 8) instead of solving
them.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelsearch
from kernelsearch import train
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.learning.bem import bem_weights, preference_margins
from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.multiscale_kernel import MultiScaleKernel
from kernelsearch.papers.classify.simple_mkl import SimpleMKL
from kernelsearch.papers.mslm.text_levels import gaussian_pyramid
from tests.conftest import build_texts
from tests.papers.brute_force import WORDS, Dense, build, command_line_run, make_documents
from tests.papers.mslm.forms import paper

TEXTS = {
    "a": "pump seal worn pump leak rubber seal pipe tap water",
    "b": "garden wall paint seal roof tile pump",
    "c": "rubber pipe water pump valve",
    "d": "seal",
}


def dense_semantic(words, edges, scale):
    """Eq. 8's κ: a word keeps weight 1 and lends exp(-d²/2σ²) to each neighbour; columns sum to one."""
    matrix = np.eye(words)
    for (i, j), distance in edges.items():
        lent = math.exp(-0.5 * (distance / scale) ** 2) if 0 < scale < math.inf else float(scale == math.inf)
        matrix[i, j] = matrix[j, i] = lent
    return matrix / matrix.sum(axis=0)


def edges_of(graph):
    """{(word, word): distance} of a graph."""
    edges = {}
    for word in range(graph.words):
        for other, distance in zip(*graph.neighbours(word), strict=True):
            edges[tuple(sorted((word, int(other))))] = float(distance)
    return edges


def dense_spatial(length, positions, scale, width=0):
    """Eq. 6's k: Gaussian weights of the tokens around a position, cut off at the text's ends; columns sum to one."""
    out = np.zeros((length, len(positions)))
    half = width // 2 if width else math.ceil(2 * scale)
    for column, position in enumerate(positions):
        for token in range(length):
            if abs(token - position) <= half:
                out[token, column] = math.exp(-0.5 * ((token - position) / scale) ** 2)
    return out / out.sum(axis=0)


@pytest.fixture
def graph():
    graph = SemanticGraph.from_edges(6, np.array([0, 1, 2]), np.array([1, 3, 5]), np.array([0.5, 0.9, 0.7]))
    return graph, edges_of(graph)


TOKENS = [0, 3, 1, 1, 5, 2, 0]


def test_equation_1_the_bag_of_words_is_the_sum_over_positions(graph):
    level = gaussian_pyramid(TOKENS, SemanticGraph.empty(6), scales=[math.inf], eta=0.0)[0]
    assert level.dense()[:, 0] * len(TOKENS) == pytest.approx([2, 2, 1, 1, 0, 1])


def test_equations_2_to_4_dirac_kernels_leave_the_binary_code(graph):
    """At scale 0 a cell is δ(v_i - word at j), along positions and along words; columns sum to one."""
    operator, _ = graph
    level = gaussian_pyramid(TOKENS, operator, scales=[0.0], eta=0.0)[0]
    assert level.dense() == pytest.approx(np.array([[float(word == token) for token in TOKENS] for word in range(6)]))


def test_equations_6_and_8_smoothing_along_positions_and_words(graph):
    operator, edges = graph
    background = np.array([0.3, 0.1, 0.1, 0.2, 0.2, 0.1])
    levels = gaussian_pyramid(TOKENS, operator, scales=[1.0, 2.0], width=5, eta=0.2, background=background)
    for level, scale in zip(levels, (1.0, 2.0), strict=True):
        code = np.eye(6)[:, TOKENS]
        smooth = dense_semantic(6, edges, scale) @ code @ dense_spatial(7, range(7), scale, 5)
        assert level.dense() == pytest.approx((smooth + 0.2 * background[:, None]) / 1.2)


def test_equations_9_and_10_margins_of_nearest_hits_and_misses():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(3, 12, 4)) + np.array([0.0, 2.0, 0.5])[:, None, None] * (np.arange(12) % 2)[None, :, None]
    kernels = np.stack([points @ points.T for points in features], axis=2)
    y = np.arange(12) % 2

    def distance(level, i, j):
        return math.sqrt(max(kernels[i, i, level] + kernels[j, j, level] - 2 * kernels[i, j, level], 0.0))

    margins = np.zeros(3)
    for i in range(12):
        together = [sum(distance(level, i, j) ** 2 for level in range(3)) for j in range(12)]
        hit = min((j for j in range(12) if j != i and y[j] == y[i]), key=lambda j: together[j])
        miss = min((j for j in range(12) if y[j] != y[i]), key=lambda j: together[j])
        margins += [distance(level, i, miss) - distance(level, i, hit) for level in range(3)]
    positive = np.maximum(margins / 12, 0)
    fitted = BemMKL(standardize=False).fit(kernels, y)
    assert fitted.margins_ == pytest.approx(margins / 12)
    assert fitted.weights_ == pytest.approx(positive / np.linalg.norm(positive))
    assert fitted.transform(kernels) == pytest.approx(kernels @ fitted.weights_)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return kernelsearch.open(build_texts(tmp_path_factory.mktemp("pyramid"), TEXTS))


def js_similarity(a, b):
    middle = (a + b) / 2
    return math.log(2) - 0.5 * sum(float(x[x > 0] @ np.log(x[x > 0] / middle[x > 0])) for x in (a, b))


@pytest.mark.parametrize("divergence", ["js", "kl"])
def test_equation_8_at_scale_0_has_no_graph(index, divergence):
    """κ is the identity: words that the graph relates to the query's are other words, as they are without a graph."""
    query = index.query("pump seal")
    candidates = index.lucene.search([query], 10)[0]
    alone = paper(index, scales=2, semantic=0, divergence=divergence)
    related = paper(index, scales=2, semantic=0, divergence=divergence)
    pairs = np.array([index.forward.term_ids(pair) for pair in (["pump", "valv"], ["seal", "rubber"])])
    related.graph = SemanticGraph.from_edges(len(index.forward.terms), pairs[:, 0], pairs[:, 1], np.array([0.4, 0.8]))
    assert alone.graph.edges == 0 and related.graph.edges == 2
    assert related.level_scores(query, candidates) == pytest.approx(alone.level_scores(query, candidates), abs=1e-12)


def test_equations_12_and_13_margins_of_preference_pairs():
    rng = np.random.default_rng(2)
    queries = [(rng.normal(size=(7, 3)), rng.integers(0, 3, 7)) for _ in range(4)]
    margins = np.zeros(3)
    for scores, grades in queries:
        for i, j in product(range(7), range(7)):
            if grades[i] > grades[j]:
                margins += scores[i] - scores[j]
    assert preference_margins(queries) == pytest.approx(margins)
    positive = np.maximum(margins, 0)
    assert bem_weights(margins) == pytest.approx(positive / np.linalg.norm(positive))


# Section 4.2 as a whole on the command line, from token lists

#: Of the graph of related words: neighbours, window, least count, largest share of the documents.
NEIGHBOURS, WINDOW, LEAST, COMMON = 3, 4, 2, 0.6
TOPICS = {"1": "w03 w17 w41", "2": "w22 w08", "3": "w30 w11 w03 w50"}


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    records = make_documents()
    texts = [f"{record['title']} {record['contents']}".split() for record in records]  # in reading order
    return build(tmp_path_factory.mktemp("pyramid"), records), texts


def related_words(texts):
    """{(word, word): distance}: normalised mutual information of words within WINDOW positions, the nearest of each word.

    d = 1 - s, at least .001, scaled to a mean of 1.5 positions.
    """
    count, df = (np.array([f(word) for word in WORDS], dtype=float) for f in (
        lambda word: sum(text.count(word) for text in texts), lambda word: sum(word in text for text in texts)
    ))  # fmt: skip
    usable, tokens = (df <= COMMON * len(texts)) & (count >= LEAST), count.sum()
    together = np.zeros((len(WORDS), len(WORDS)))
    for text in texts:
        numbers = [WORDS.index(word) for word in text]
        for i, j in product(range(len(text)), range(len(text))):
            if 0 < abs(i - j) <= WINDOW and numbers[i] != numbers[j] and usable[numbers[i]] and usable[numbers[j]]:
                together[numbers[i], numbers[j]] += 1
    similarity = {}
    for word in range(len(WORDS)):
        near = {}
        for other in np.flatnonzero(together[word] >= LEAST):
            joint = together[word, other] / (tokens * 2 * WINDOW)
            near[other] = math.log(joint * tokens**2 / (count[word] * count[other])) / -math.log(joint)
        for other in sorted((o for o in near if near[o] > 0), key=lambda o: (-near[o], o))[:NEIGHBOURS]:
            similarity[tuple(sorted((word, int(other))))] = min(near[other], 1.0)
    distances = {pair: max(1 - value, 1e-3) for pair, value in similarity.items()}
    return {pair: 1.5 * distance / np.mean(list(distances.values())) for pair, distance in distances.items()}


def window_at(length, position, scale, mass):
    """The normalised window around a position, in which tokens weigh by their mass, shape (length,)."""
    inside = [abs(token - position) <= math.ceil(2 * scale) for token in range(length)]
    weights = np.exp(-0.5 * ((np.arange(length) - position) / scale) ** 2) * inside * mass
    return weights / weights.sum()


def interpolated_windows(length, columns, scale, mass):
    """Windows at `columns` positions from the first token to the last one, between two tokens interpolated."""
    out = []
    for place in np.linspace(0, length - 1, columns):
        low = math.floor(place)
        parts = [window_at(length, min(at, length - 1), scale, mass) for at in (low, low + 1)]
        out.append((1 - place + low) * parts[0] + (place - low) * parts[1])
    return out


def dense_level_score(query, text, scale, sigma, edges, dense, options):
    """r_l(q, d) of Section 4.2 by the words' distributions; words that are neither the query's nor related to it are one."""
    mode, divergence, idf, eta = options["mode"], options["divergence"], options["weighting"] == "idf", options["eta"]
    asked, tokens = ([WORDS.index(word) for word in words] for words in (query, text))
    importance = dense.idf if idf else np.ones(len(WORDS))
    semantic = dense_semantic(len(WORDS), edges, sigma)
    background = dense.counts.sum(axis=0) / dense.counts.sum()
    rows = sorted({*asked, *(word for pair in edges for word in pair if set(pair) & set(asked))})
    rest = [word for word in range(len(WORDS)) if word not in rows]

    def distribution(numbers, window):
        column = (semantic @ np.eye(len(WORDS))[:, numbers] @ window + eta * background) / (1 + eta)
        return np.append(column[rows], column[rest].sum())

    if mode == "global":
        windows = interpolated_windows(len(asked), 5, scale, np.ones(len(asked)))
        theirs = interpolated_windows(len(tokens), 5, scale, importance[tokens])
    else:
        step, count = int(scale), -(-len(asked) // int(scale))
        places = np.arange(count) * step + (len(asked) - 1 - (count - 1) * step) / 2
        windows = [window_at(len(asked), place, scale, np.ones(len(asked))) for place in places]
        theirs = [window_at(len(tokens), place, scale, importance[tokens]) for place in range(0, len(tokens), step)]
    weighted = [window * importance[asked] for window in windows]
    share = np.array([window.sum() for window in weighted]) / sum(window.sum() for window in weighted)
    mine = [distribution(asked, window / window.sum()) for window in weighted]
    columns = [distribution(tokens, window) for window in theirs]

    def similarity(a, b):
        return js_similarity(a, b) if divergence == "js" else float(a @ np.log(b / a))

    starts = range(1 if mode == "global" else len(columns) - len(mine) + 1)
    matches = [
        sum(part * similarity(a, b) for part, a, b in zip(share, mine, columns[start:], strict=False)) for start in starts
    ]
    return {"max": max, "mean": np.mean, "sum": sum, "global": sum}[mode](matches)


def standardised(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "max", "divergence": "js", "weighting": "idf", "normalise": "z", "eta": 0.1},
        {"mode": "sum", "divergence": "kl", "weighting": "none", "normalise": "none", "eta": 0.3},
        {"mode": "global", "divergence": "js", "weighting": "idf", "normalise": "none", "eta": 0.1},
        {"mode": "mean", "divergence": "kl", "weighting": "idf", "normalise": "z", "eta": 0.2},
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_equations_11_to_13_on_the_command_line(collection, tmp_path, options):
    """Level weights a = h⁺/‖h⁺‖ by `train`, with z-scores and as printed, and r = Σ a_l r_l in `search`."""
    opened, texts = collection
    dense, edges, hits, mix = Dense([" ".join(text) for text in texts]), related_words(texts), 9, 0.6
    levels = [(2.0, 0.7), (3.0, 0.0), (4.0, 1.1)]
    chance = np.random.default_rng(3)

    def candidates(text):
        scores = dense.bm25(text)
        return [doc for doc in np.argsort(-scores, kind="stable")[:hits] if scores[doc] > 0], scores

    def level_scores(text, docs):
        found = np.array([[dense_level_score(text.split(), texts[doc], *level, edges, dense, options) for level in levels]
                          for doc in docs])  # fmt: skip
        return standardised(found) if options["normalise"] == "z" else found

    margins, grades = np.zeros(len(levels)), {}
    for qid, text in TOPICS.items():
        docs, _ = candidates(text)
        best = {f"d{doc:02d}": 2 for doc in docs[:3]}
        grades[qid] = {f"d{doc:02d}": int(chance.integers(-1, 2)) for doc in range(48)} | best
        relevance = [max(grades[qid][f"d{doc:02d}"], 0) for doc in docs]
        found = level_scores(text, docs)
        for i, j in product(range(len(docs)), range(len(docs))):
            margins += (found[i] - found[j]) * (relevance[i] > relevance[j])
    weights = np.maximum(margins, 0) / np.linalg.norm(np.maximum(margins, 0))

    (tmp_path / "t.tsv").write_text("".join(f"{qid}\t{text}\n" for qid, text in TOPICS.items()))
    (tmp_path / "q.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, docs in grades.items() for d, g in docs.items()))
    matching = [
        *(flag for name, value in options.items() for flag in (f"--mslm-paper.{name}", str(value))),
        *("--mslm-paper.scales", "2,3,4", "--mslm-paper.semantic", "0.7,0,1.1", "--mslm-paper.columns", "5"),
        *("--mslm-paper.width", "0", "--mslm-paper.step", "0"),
    ]
    model = str(tmp_path / "model")
    train.main([
        *("--index", opened.name, "--rerank", "mslm-paper", "--output", model, "--mslm-paper.hits", str(hits), *matching),
        *("--topics", str(tmp_path / "t.tsv"), "--qrels", str(tmp_path / "q.txt"), "--mslm-paper.neighbours", str(NEIGHBOURS)),
        *("--mslm-paper.window", str(WINDOW), "--mslm-paper.min-count", str(LEAST), "--mslm-paper.common", str(COMMON)),
    ])  # fmt: skip
    learned = paper(opened, model=model, weights="learned", scales=(2, 3, 4), semantic=(0.7, 0, 1.1), columns=5, **options)
    numbers = [WORDS.index(word) for word in opened.forward.words(np.arange(learned.graph.words))]
    graph = {(numbers[i], numbers[j]): distance for (i, j), distance in edges_of(learned.graph).items()}
    assert graph == pytest.approx(edges, rel=1e-5)
    assert learned.level_weights == pytest.approx(weights, abs=2e-5) and (weights > 0).any()
    flags = [
        "--rerank",
        "mslm-paper",
        "--mslm-paper.model",
        model,
        "--mslm-paper.weights",
        "learned",
        "--mslm-paper.mix",
        str(mix),
        *matching,
    ]
    asked = "w03 w22 w17 w30 w08"
    run = command_line_run(opened, tmp_path, asked, "--hits", str(hits), *flags)
    docs, first = candidates(asked)
    total = standardised(level_scores(asked, docs) @ weights) * mix + standardised(first[docs]) * (1 - mix)
    assert run == pytest.approx({f"d{doc:02d}": value for doc, value in zip(docs, total, strict=True)}, abs=1e-4)


@pytest.mark.parametrize("kernel", ["frobenius", "rbf", "js"])
@pytest.mark.parametrize(("weighting", "eta"), [("none", 0.0), ("idf", 0.0), ("none", 0.8), ("idf", 3.0)])
def test_section_4_1_kernels_between_texts(kernel, weighting, eta):
    """One level, two columns: texts stretched to two columns, smoothed along words by the learned graph, compared.

    With η the code is the paper's Dirichlet-smoothed one, x⁰ = (η/MN + x)/(1 + η), before both windows (Section 2.1).
    """
    texts = [
        "red car fast car road", "fast red car", "green pear ripe pear", "ripe green pear tree",
        "wind storm cloud", "storm wind rain cloud", "stone wall brick", "brick stone house wall",
    ]  # fmt: skip
    maker = MultiScaleKernel(
        scales=[2.0], semantic_scales=[0.7], kernel=kernel, weighting=weighting, columns=2, width=0, min_count=1, common=1.0,
        combine="stack", gamma=3.0, eta=eta,
    )  # fmt: skip
    kernel_values = maker.fit(texts).transform(texts)[:, :, 0]
    words = [text.split() for text in texts]
    vocabulary = sorted({word for text in words for word in text})
    df = np.array([sum(word in text for text in words) for word in vocabulary])
    idf = np.log(9 / (1 + df)) + 1
    edges = edges_of(maker.graph_)
    assert edges and sorted(maker.vocabulary_) == vocabulary
    codes = []
    for text in words:
        tokens = [vocabulary.index(word) for word in text]
        spatial = dense_spatial(len(tokens), [0, len(tokens) - 1], 2.0)
        if weighting == "idf":
            spatial *= idf[tokens][:, None]
            spatial /= spatial.sum(axis=0)
        binary = np.eye(len(vocabulary))[:, tokens]
        smoothed = len(tokens) * (eta / binary.size + binary / len(tokens)) / (1 + eta)  # columns of mass one
        codes.append((dense_semantic(len(vocabulary), edges, 0.7) @ smoothed @ spatial) / 2)
    for i, j in product(range(8), range(8)):
        a, b = codes[i], codes[j]
        expected = {
            "frobenius": (a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()),
            "rbf": math.exp(-3.0 * ((a - b) ** 2).sum()),
            "js": js_similarity(a.ravel(), b.ravel()) / math.log(2),
        }[kernel]
        assert kernel_values[i, j] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kernel", ["frobenius", "rbf"])
@pytest.mark.parametrize("eta", [0.0, 0.8])
def test_section_3_kernels_on_the_laplacian_pyramid(kernel, eta):
    """Levels are X(l) - X(l + 1), here of scales 1, 2 and ∞ along positions and 0, .7 and .4 along words."""
    texts = [
        "red car fast car road", "fast red car", "green pear ripe pear", "ripe green pear tree",
        "wind storm cloud", "storm wind rain cloud", "stone wall brick", "brick stone house wall",
    ]  # fmt: skip
    scales, semantic, gamma = [1.0, 2.0, math.inf], [0.0, 0.7, 0.4], 2.0
    maker = MultiScaleKernel(
        scales=scales, semantic_scales=semantic, kernel=kernel, pyramid="laplacian", columns=2, width=0, min_count=1,
        common=1.0, combine="stack", gamma=gamma, eta=eta,
    )  # fmt: skip
    kernel_values = maker.fit(texts).transform(texts)
    vocabulary, edges = sorted({word for text in texts for word in text.split()}), edges_of(maker.graph_)
    assert kernel_values.shape == (8, 8, 2) and edges

    def level(text, number):
        tokens = [vocabulary.index(word) for word in text.split()]
        finite = math.isfinite(scales[number])
        spatial = (
            dense_spatial(len(tokens), [0, len(tokens) - 1], scales[number])
            if finite
            else np.full((len(tokens), 2), 1 / len(tokens))
        )
        binary = np.eye(len(vocabulary))[:, tokens]
        smoothed = len(tokens) * (eta / binary.size + binary / len(tokens)) / (1 + eta)
        return dense_semantic(len(vocabulary), edges, semantic[number]) @ smoothed @ spatial / 2

    for number in range(2):
        codes = [level(text, number) - level(text, number + 1) for text in texts]
        for (i, a), (j, b) in product(enumerate(codes), enumerate(codes)):
            if kernel == "rbf":
                expected = math.exp(-gamma * ((a - b) ** 2).sum())
            else:
                norms = (a * a).sum() * (b * b).sum()
                expected = (a * b).sum() / math.sqrt(norms)
            assert kernel_values[i, j, number] == pytest.approx(expected, abs=1e-6)


def test_simple_mkl_minimises_the_sum_over_all_classes():
    """Against a grid over the simplex: the objective of one against the rest, summed over three classes."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], 8)
    signals = [(y == 0) * 2.0, (y == 2) * 2.0]  # the first kernel knows class 0, the second class 2
    features = [np.column_stack([signal + rng.normal(scale=0.7, size=24), rng.normal(size=24)]) for signal in signals]
    kernels = np.stack([points @ points.T + np.eye(24) for points in features], axis=2)
    learner = SimpleMKL(C=1.0, tol=1e-5, normalize=False).fit(kernels, y)

    def objective(weights):
        total = 0.0
        for label in (0, 1, 2):
            gram = kernels @ weights
            model = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(gram, np.where(y == label, 1, -1))
            beta = np.zeros(24)
            beta[model.support_] = model.dual_coef_[0]
            total += np.abs(beta).sum() - 0.5 * beta @ gram @ beta
        return total

    grid = [objective(np.array([share, 1 - share])) for share in np.linspace(0, 1, 41)]
    assert objective(learner.weights_) <= min(grid) + 1e-3
    assert 0.1 < learner.weights_[0] < 0.9
