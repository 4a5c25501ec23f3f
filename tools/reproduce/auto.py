"""`auto` without harm: what it gains per kind of query, how its weights were chosen, and what was tried besides.

    python -m tools.reproduce.auto [--collections FOLDER] [--scratch FOLDER] [--output docs/reproductions/auto.md] [--claims]

Features of every condition are computed once and cached in the scratch folder (`tools/reproduce/auto_tables.py`). Weights are
chosen on all collections but one, and measured on that one. The section on learned fusion trains models for minutes: without
--claims the page keeps the one that it has.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.rerankers.auto.bound import FACTOR
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS, CERTAINTY, MATCH, READ_CERTAINTY, READING_WEIGHTS, TITLE
from tools import ROOT
from tools.data.datasets import add_collections_option
from tools.reproduce.auto_gates import gates_table, variants_table
from tools.reproduce.auto_tables import (
    CORPORA,
    FEEDBACK,
    KINDS,
    MADE,
    SOFT_FEEDBACK,
    TOPICAL,
    Condition,
    compute_conditions,
    larger_condition,
    made_conditions,
)
from tools.reproduce.claims import section as claims_section
from tools.reproduce.pages import markdown_table, risk, rounded

#: Conditions of test topics, which are measured only: the choice of weights sees training and development topics.
TEST = ("nfcorpus", "scifact")
ALONE = ("rm3", "rm", MATCH, "pert", "top:docs=20,sharpness=5", "klsa:lambda=1", "klsa", *SOFT_FEEDBACK, *FEEDBACK)
CLAIMS_HEADING = "## Learned fusion on claims"
#: Methods of the table of conditions, by features.
RANKERS = {"RM3": "rm3", "pert": "pert", "mslm": MATCH, "klsa": "klsa"}

#: What is compared: weights of the posteriors of the first stage and of the match, of each kind of feedback, and the factors of
#: the bound on feedback.
POSTERIORS = ((0.5, 0.0), (0.25, 0.5))
FEEDBACK_WEIGHTS = (1.0, 1.25, 1.5, 2.0)
FACTORS = (None, 2.0, 1.5, 1.25)


class Setting(NamedTuple):
    """Weights by feature, and the factor of the bound on feedback, None for no bound."""

    weights: Mapping[str, float]
    factor: float | None = None

    def ap(self, condition: Condition) -> NDArray[np.float64]:
        """AP per topic of a `condition`."""
        return condition.ap(self.weights, factor=self.factor)


#: `auto` itself.
AUTO = Setting(READING_WEIGHTS, FACTOR)


def settings() -> dict[tuple[float, float, float, float | None], Setting]:
    """The settings that are compared, by the weights of the two posteriors and of feedback, and the factor."""
    out = {}
    for (certainty, read), feedback, factor in product(POSTERIORS, FEEDBACK_WEIGHTS, FACTORS):
        weights = {**READING_WEIGHTS, **dict.fromkeys(FEEDBACK, feedback), CERTAINTY: certainty, READ_CERTAINTY: read}
        out[certainty, read, feedback, factor] = Setting(weights, factor)
    return out


def choose(conditions: Sequence[Condition], gains: NDArray[np.float64], without: str | None = None) -> int:
    """The setting with the largest mean over kinds of conditions, without those of the collection `without` and of test topics.

    `gains` has shape (settings, conditions).
    """
    seen = np.array([condition.corpus != without and condition.name not in TEST for condition in conditions])
    kinds = np.array([condition.kind for condition in conditions])
    means = [gains[:, seen & (kinds == kind)].mean(axis=1) for kind in sorted(set(kinds[seen]))]
    return int(np.argmax(np.mean(means, axis=0)))


def page(conditions: Sequence[Condition], redrawn: Sequence[Condition], larger: Condition, claims: str) -> str:
    """The page docs/reproductions/auto.md on these `conditions`.

    `redrawn` are conditions of another draw of made topics, `larger` is one of `conditions` with more topics, `claims` is the
    text of the section on learned fusion.
    """
    alone = {name: Setting({feature: 1.0}) for name, feature in RANKERS.items()}
    rankers = {**alone, "auto": AUTO}
    compared = settings()
    gains = np.array([[condition.gain(setting.ap(condition)) for condition in conditions] for setting in compared.values()])
    corpora = list(dict.fromkeys(condition.corpus for condition in conditions))
    chosen = {corpus: choose(conditions, gains, corpus) for corpus in corpora}
    rows, below = [], []
    changes: dict[str, list[NDArray[np.float64]]] = {name: [] for name in rankers}
    for place, condition in enumerate(conditions):
        cells = [condition.name, str(len(condition.totals)), rounded(float(condition.base.mean()))]
        for name, setting in rankers.items():
            values = setting.ap(condition)
            change = values - condition.base
            changes[name].append(change)
            error = f" ±{100 * condition.error(values):.1f}" if name == "auto" else ""
            cells.append(f"{100 * condition.gain(values):+.1f}{error} {risk(change)}")
            if name == "auto" and condition.gain(values) < -0.005:
                below.append(f"{condition.name} ({100 * condition.gain(values):+.1f} ±{100 * condition.error(values):.1f}%)")
        rows.append([*cells, f"{100 * gains[chosen[condition.corpus], place]:+.1f}"])
    lost = {name: np.concatenate(parts) for name, parts in changes.items()}
    by_kind = zip(*(kind_means(conditions, setting) for setting in rankers.values()), strict=True)
    lost_table = markdown_table(
        ("all conditions", *rankers),
        [
            ["queries hurt by more than .01 AP", *(str((part < -0.01).sum()) for part in lost.values())],
            ["AP lost on hurt queries, summed", *(f"{-part[part < 0].sum():.1f}" for part in lost.values())],
            *([kind, *means] for kind, means in zip(KINDS, by_kind, strict=True)),
        ],
    )
    topical = np.array([condition.kind == "topical" for condition in conditions])
    held = np.array([gains[chosen[condition.corpus], place] for place, condition in enumerate(conditions)])
    return TEXT.format(
        conditions=len(conditions),
        made=MADE,
        larger=larger_text(larger),
        redrawn=redrawn_table(redrawn),
        gains=markdown_table(("", "topics", "BM25", *rankers, "chosen without the collection"), rows),
        risk=lost_table,
        single=markdown_table(
            ("alone, gain over BM25", *KINDS), [[f"`{name}`", *kind_means(conditions, Setting({name: 1.0}))] for name in ALONE]
        ),
        chosen=chosen_table(conditions, list(compared), gains, chosen),
        settings=len(compared),
        claims=claims,
        topical=f"{100 * gains[list(compared.values()).index(AUTO), topical].mean():+.1f}%",
        held=f"{100 * held[topical].mean():+.1f}%",
        below=", ".join(below) or "none",
        steps=steps_table(conditions),
        variants=variants_table(conditions),
        gates=gates_table(conditions),
        bounds=bounds_table(conditions, compared, gains),
    )


def chosen_table(
    conditions: Sequence[Condition],
    compared: Sequence[tuple[float, float, float, float | None]],
    gains: NDArray[np.float64],
    chosen: Mapping[str, int],
) -> str:
    """What the procedure chooses with a collection left out, and what this gives on it, beside `auto`.

    `compared` are the keys of `settings`; `gains` has shape (settings, conditions); `chosen` has the number of the chosen
    setting by the collection that is left out.
    """
    auto = compared.index((AUTO.weights[CERTAINTY], AUTO.weights[READ_CERTAINTY], AUTO.weights[FEEDBACK[0]], AUTO.factor))
    rows = []
    for corpus, number in (*chosen.items(), ("none", choose(conditions, gains))):
        own = np.array([condition.corpus == corpus or corpus == "none" for condition in conditions])
        topical = np.array([condition.kind in TOPICAL for condition in conditions])
        certainty, read, feedback, factor = compared[number]
        cells = [corpus, f"{certainty:g}, {read:g}", f"{feedback:g}", "none" if factor is None else f"{factor:g}"]
        for part in (own & topical, own & ~topical):
            cells += [f"{100 * gains[setting, part].mean():+.1f}%" if part.any() else "" for setting in (number, auto)]
        cells += [f"{100 * gains[setting, own].min():+.1f}%" for setting in (number, auto)]
        rows.append(cells)
    headings = ("posteriors", "feedback", "factor", "topical", "`auto`", "other topics", "`auto`", "worst", "`auto`")
    return markdown_table(("left out", *headings), rows)


def bounds_table(
    conditions: Sequence[Condition],
    compared: Mapping[tuple[float, float, float, float | None], Setting],
    gains: NDArray[np.float64],
) -> str:
    """Feedback of several weights without and with a bound, with `auto`'s weights of the posteriors.

    `compared` are the settings; `gains` has shape (settings, conditions).
    """
    own = np.array([condition.kind == "topical" for condition in conditions])
    topical = np.array([condition.kind in TOPICAL for condition in conditions])
    rows = []
    for (certainty, _, feedback, factor), setting, values in zip(compared, compared.values(), 100 * gains, strict=True):
        if certainty != AUTO.weights[CERTAINTY]:
            continue
        changes = np.concatenate([setting.ap(condition) - condition.base for condition in conditions])
        cells = [f"{values[part].mean():+.1f}%" for part in (own, topical, ~topical)]
        cells += [f"{values.min():+.1f}%", str((values < -0.5).sum()), str((changes < -0.01).sum())]
        cells.append(f"{-changes[changes < 0].sum():.0f}")
        rows.append([f"{feedback:g}", "none" if factor is None else f"{factor:g}", *cells])
    headings = ("topical", "with long and short documents and abstracts", "other topics", "worst", "below -.5%", "hurt")
    return markdown_table(("feedback", "factor", *headings, "AP lost"), rows)


def steps_table(conditions: Sequence[Condition]) -> str:
    """What the decisions per query change: gains per kind of topics, and the risk over all `conditions`."""
    certainty = {CERTAINTY: 0.5}
    match = {MATCH: 2.0, TITLE: 1.0}
    soft = {**match, **dict.fromkeys((*SOFT_FEEDBACK, FEEDBACK[2]), 1.0)}
    sharp = {**match, **dict.fromkeys(FEEDBACK, 1.0)}
    posteriors = {name: READING_WEIGHTS[name] for name in (CERTAINTY, READ_CERTAINTY)}
    steps = {
        "feedback by the first stage's scores": Setting(AUTO_WEIGHTS),
        "and `posterior`": Setting({**AUTO_WEIGHTS, **certainty}),
        "feedback by `mslm`'s scores": Setting(soft),
        "and `posterior` of the first stage": Setting({**soft, **certainty}),
        "and sharpness 10": Setting({**sharp, **certainty}),
        "and `posterior` of `mslm`": Setting({**sharp, **posteriors}),
        "and 1.5 times the feedback": Setting(READING_WEIGHTS),
        "and the bound: `auto`": AUTO,
    }
    rows = []
    for label, setting in steps.items():
        aps = [setting.ap(condition) for condition in conditions]
        changes = np.concatenate([values - condition.base for condition, values in zip(conditions, aps, strict=True)])
        below = sum(condition.gain(values) < -0.005 for condition, values in zip(conditions, aps, strict=True))
        counts = [str((changes < -0.01).sum()), f"{-changes[changes < 0].sum():.1f}", str(below)]
        rows.append([label, *kind_means(conditions, setting), *counts])
    return markdown_table(("", *KINDS, "hurt", "AP lost", "below -.5%"), rows)


def redrawn_table(conditions: Sequence[Condition]) -> str:
    """The gains of `mslm` and `auto` on `conditions` of another draw, a row per collection and a column per kind."""
    kinds = list(dict.fromkeys(condition.kind for condition in conditions))
    rows = []
    for corpus in dict.fromkeys(condition.corpus for condition in conditions):
        cells = []
        for kind in kinds:
            matching = [condition for condition in conditions if (condition.corpus, condition.kind) == (corpus, kind)]
            values = [(condition, AUTO.ap(condition)) for condition in matching]
            cells.append("".join(f"{100 * c.gain(ap):+.1f} ±{100 * c.error(ap):.1f} {risk(ap - c.base)}" for c, ap in values))
        rows.append([corpus, *cells])
    return markdown_table(("`auto`", *kinds), rows)


def larger_text(condition: Condition) -> str:
    """The changes by `auto` and `mslm` on a `condition`, as text."""
    parts = []
    for label, setting in (("auto", AUTO), ("mslm", Setting({MATCH: 1.0}))):
        values = setting.ap(condition)
        change = f"{100 * condition.gain(values):+.1f} ±{100 * condition.error(values):.1f}%"
        parts.append(f"`{label}` {change} {risk(values - condition.base)}")
    return f"{condition.name} (BM25 {rounded(float(condition.base.mean()))}): {', '.join(parts)}"


def kind_means(conditions: Sequence[Condition], setting: Setting) -> list[str]:
    """The mean gain over `conditions` per kind of topics of a `setting`, in percent, as text."""
    gains = [(condition.kind, condition.gain(setting.ap(condition))) for condition in conditions]
    return [f"{100 * np.mean([gain for other, gain in gains if other == kind]):+.1f}%" for kind in KINDS]


TEXT = """# `auto`: gains and losses by kind of query

`python -m tools.reproduce.auto` computes this page in about 25 minutes of CPU time. Every condition takes topics of one kind
on one collection, at most 250 of its own or {made} made ones. The first stage is BM25 (k1 .9, b .4). All rankings are of the
same candidates: 500 of BM25 and 500 of the expanded query; `mslm` reranks the best 100. Figures are changes in MAP against
BM25 in percent, for `auto` with the standard error over topics, and in parentheses the number of queries that lose and gain
more than .01 AP and the sum of the AP lost.

- *topical*: the collections' own topics, with many relevant documents each; cran's are questions, cisi's are verbose.
  *long documents*: the same topics, on documents that were joined from four related ones each. *short documents*: the same
  topics, or the kind that is named before, on the first 44 words of each document, as many as npl's documents have.
  *abstracts*: the first 60 words of a document that is relevant to such a topic; the other documents relevant to the topic are
  relevant, and the document itself is removed from the corpus.
- *claims*: those of scifact, most with one relevant abstract. *clicks*: queries of the log zerozero, mostly names, with
  the clicked pages.
- *known items*: words of one sentence of a document, the only relevant one. *noisy known items*: the same with five words
  of another document. *posts*: half of the words of a sentence amid conversation, with a name, a hashtag and an address.
  *titles*: titles against documents without their titles. *conclusions*: the last sentence of an abstract against the rest.

The last five of these kinds and *abstracts* are made from the corpora with fixed seeds (`tools/data/made_topics.py`). Words
are drawn from letters only: earlier versions of this page drew cacm's citation numbers and record codes too, and had a
condition of "conclusions" that were such codes; `auto` lost up to 9% on these unrealistic queries.

{gains}

The last column chooses the weights without the row's collection (see below). Topical mean: `auto` {topical}, chosen without
the collection {held}. All are orders of the same candidates, to which the expanded query adds documents that BM25 does not
find; on complete lists of 1,000 documents (`reproduce bm25 auto`) `auto` gains 20.9% on average over the five topical
collections, on which its weights were chosen.

Of {conditions} conditions these are below BM25 by more than .5%: {below}.

On npl, whose documents are short, noisy known items lost 2.4 ±.9% before there was a bound on feedback. Four times as many
topics: {larger}.
Standard errors on queries with one relevant document are .4 to 2%, so their changes of less than one or two percent are not
decided.

A second draw of made topics, by other seeds, on which nothing was chosen; gain in percent, standard error, and risk as above:

{redrawn}

{risk}

## What makes the difference

Feedback weights its documents by p(d|q) ∝ exp(5 s/s₁), s₁ being the best score (`kernels.ranking_models.posterior_weights`).
Anserini's RM3 weights them by their scores, which differ little among the first ten. With the posterior, a query that one
document answers far better than the others is expanded from that document alone; sharpness and number of documents, 20, are the
same for all queries.

Three further decisions are made per query. The scores s are those of `mslm` for the first stage's best 50 documents, on the
first stage's scale: in the relevant document of a noisy query, its words are close together. The posteriors of the first stage
and of `mslm`, with sharpness 10, are features (`posterior`), which keep a document first that scores far above the others. And
a bound limits what feedback can cost: a document's place is the better one of its place by the sum and 1.5 times its place by
`mslm` (`kernelsearch.rerankers.auto.bound`). The document that `mslm` puts first is second at worst, and the r-th is not below
place 2.5 r. With the bound, feedback can have more weight. The order by `mslm` is more reliable than BM25's, so `rm` and `top`
weight its documents with sharpness 10 instead of 5, which gives the first ones more weight.

{steps}

Each feature alone; `read:mslm/rm` is `rm` by `mslm`'s scores:

{single}

## Settings chosen when a collection is left out

The procedure compares {settings} settings: the weights of the two posteriors (first stage .5; first stage .25 and `mslm` .5),
of each kind of feedback (1 to 2) and the factor of the bound (none, 2, 1.5, 1.25). It takes the one with the largest mean gain
over the kinds of conditions on the other collections. Test topics of nfcorpus and scifact are measured only.

{chosen}

A bound and the two posteriors are chosen on all seven sets of collections; the weight of feedback is 1.5 or 2, the factor 1.5,
without nfcorpus 2 and without cacm 1.25. With a collection left out, the conditions below -.5% are again only those of known
items on short documents. The settings were first explored on all conditions, so `auto`'s own columns are not held out; the
second draw above is.

The same settings on all conditions, with `auto`'s posteriors:

{bounds}

At the same topical gain, a bound with more feedback gains more on the other topics than less feedback without a bound does:
compare feedback 1.5 with factor 1.5 and feedback 1 without. A smaller factor gives up topical gains.

{claims}
## Decisions per query that were tried

Variants of the sum, on all conditions ("topical" includes *long* and *short documents* and *abstracts* in this section):

{variants}

`effective` is the effective number of feedback documents. The variants exchange topical gains for gains elsewhere, as the
weight of feedback and the factor of the bound do.

A logistic gate between a quarter and one and a half times `auto`'s feedback weights, of the logarithm of the query's number of
terms, the idf-weighted share of the query's terms in the best document (`coverage`), `effective`, the mean cosine between
feedback documents (`cohesion`), the overlap between the ten best by match and by feedback (`agreement`), and the z-score of
the first stage's best document (`height`). Fitted without the collection that it is measured on; "constant" is a constant gate
with the fitted one's mean:

{gates}

Gates by several measures gain up to .6% on topical topics over a constant gate of the same mean, and up to .1% on the others,
but none gives more on both than `auto` (first row of the table above) on collections that it was not fitted on. Within a kind
of query none of these measures correlates with the change in AP by more than about .2.

Measures that the literature on query drift suggests, computed once, outside of this page's command, for 200 made topics per
condition and all others: the overlap of the posterior over feedback documents with that of the query without one of its terms,
weighted by idf, and its minimum over terms (robustness under perturbation, Zhou & Croft); the share of the query's idf that
the feedback documents contain, by posterior and relative to the best document's; the share of pairs of terms that occur in one
feedback document, and the mean correlation of terms over feedback documents (whether the terms form two groups); normalised
pointwise mutual information of the terms in the collection; whether BM25 and `mslm` agree on the first document, and BM25's
place of `mslm`'s first; the cosine of the best document to the other feedback documents. None correlates with the change in AP
from a quarter to one and a half times the feedback by more than .08 in the mean over the topical conditions or over the
others, so no function of one of them can gate feedback. Their means differ between kinds of queries by less than their
standard deviation within one: the overlap is .71 on topical queries, .72 on the others, .65 on noisy known items, with a
deviation of .24.

## Tried and left out

- A bound by a document's place in the first stage's list, beside that by match, with factors 1.25 to 3: topical +14.8 to +17.1%
  ("topical" as in the section above), other topics +2.7 to +2.8%, worst -.6 to -1.9%. By the geometric mean of both places,
  with factors 1.25, 1.5 and 2: +16.2, +17.0, +17.6% and +2.9, +2.7, +2.5%, worst -.9 to -2.7%. The document that is first by
  both stays first: +17.2 and +2.8%, worst -1.7%. They exchange one gain for the other, too.
- The title's weight for the match on an index without titles: npl's noisy known items gain 2 to 3%, but topical queries on
  passages lose 1 to 3% (`tools.reproduce.kinds`).
- The posterior of the first stage added as it is instead of as a z-score, with sharpness 5 to 20 and weights 3 to 12, and the
  relative gap between the best two scores as a bonus for the best document: between the rows with and without `posterior`
  above.
- Predicting per query whether feedback will help by a threshold on score gaps, the deviation of scores, coverage, cohesion or
  overlap: no threshold generalised to a collection that was left out.
- Feedback by the mean of the first stage's and `mslm`'s scores: mostly between the two.
- BM25 with k1 1.2, b .75 for the expanded query, and its score or that with k1 2, b .75 as a feature: BM25 alone gains 6% on
  cran and 7% on cisi by k1 1.2, b .75, and on long documents 3% (7% by k1 2, b .75), but the sum gains nothing.
- z-scores within the whole pool instead of the best 100, with the match on the first stage's scale (18 conditions, of which 11
  topical or with long documents: +18.2% instead of +18.0%, others +2.1% instead of +2.4%).
- A share of the first stage in `mslm` other than one half (.3 to .7): within half a percent on most kinds; at .3,
  abstracts lose about a percent.
- Leaving a document's own share out of its cosine to the best documents, as `top:docs=5` does: it loses two thirds of MAP on
  known items.
- The cosine between rows of U or of U Σ in the latent space: less than U Σ^½ on all but one collection.
- Other sharpnesses of `rm`: equal weights lose 4% on known items, sharpness 20 loses 4% of the topical gain. Ten and fifty
  feedback documents instead of 20: within a percent.
"""


def kept_claims(path: Path) -> str:
    """The section on learned fusion that the page at `path` has; "" where there is none."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    _, heading, rest = text.partition(CLAIMS_HEADING)
    return heading + rest.partition("\n## ")[0].rstrip("\n") + "\n" if heading else ""


def main() -> None:
    """Computes the conditions, chooses weights with each collection left out, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "reproduce-auto", help="folder of indexes and features")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reproductions" / "auto.md", help="the page to write")
    parser.add_argument("--claims", action="store_true", help="train the models of the section on learned fusion again")
    arguments = parser.parse_args()
    conditions = list(compute_conditions(arguments.collections, arguments.scratch))
    again = arguments.claims
    claims = claims_section(arguments.collections, arguments.scratch) if again else kept_claims(arguments.output)
    larger = larger_condition(arguments.collections, arguments.scratch)
    redrawn = [
        condition for corpus in CORPORA for condition in made_conditions(corpus, arguments.collections, arguments.scratch, 1)
    ]
    arguments.output.write_text(page(conditions, redrawn, larger, claims), encoding="utf-8")
    print(f"{arguments.output}: written")


if __name__ == "__main__":
    main()
