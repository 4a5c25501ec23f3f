"""The section of docs/reproductions/fusion.md that compares learned fusion with its inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.learning.ranking.preference import INPUT_CAUTION
from tools.reproduce.fusion_caution import caution_table
from tools.reproduce.fusion_conditions import COLLECTIONS, MADE, MADE_CONDITIONS
from tools.reproduce.pages import markdown_table, risk, rounded

#: The marks around the section in docs/reproductions/fusion.md.
BEGIN, END = "<!-- conditions -->", "<!-- end of conditions -->"


def section(scratch: Path) -> str:
    """The section of docs/reproductions/fusion.md from the results in `scratch`; empty where nothing was measured."""
    rows, worst, measured = [], [], {}
    for name in (*COLLECTIONS, *MADE_CONDITIONS):
        result = scratch / "results" / f"condition-{name}.json"
        if not result.exists():
            continue
        values = measured[name] = json.loads(result.read_text(encoding="utf-8"))
        base, auto, fusion, new = (np.array(values[label]) for label in ("BM25", "auto", "fusion", "as new"))
        better = max(base.mean(), auto.mean())
        related = np.array(values["related"])
        cells = [name, f"{len(base)} ({int(related.sum())})", rounded(float(base.mean()))]
        for aps in (auto, fusion, new):
            cells.append(f"{100 * (aps.mean() / base.mean() - 1):+.1f} {risk(aps - base)}")
        cells += [f"{100 * (aps.mean() / better - 1):+.1f}" for aps in (fusion, new)]
        worst.append((min(fusion.mean(), new.mean()) / better - 1, name))
        rows.append([*cells, ", ".join(dict.fromkeys(values["choices"]))])
    if not rows:
        return ""
    header = ("", "topics (related)", "BM25", "auto", "fusion", "fusion, topics as new", "against the better of BM25 and auto")
    below = [f"{name} ({100 * change:+.1f}%)" for change, name in sorted(worst) if change < -0.005]
    table = markdown_table((*header, "as new", "chosen"), rows)
    text = {"table": table, "below": ", ".join(below) or "none", "cautions": caution_table(measured)}
    return TEXT.format(made=MADE, caution=INPUT_CAUTION, predicted=predicted(measured), **text)


def predicted(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """The range of what cross-validation over the training topics says of the chosen model, against its held-out MAP, as text.

    `measured` has the results of the conditions by name.
    """
    ratios = []
    for values in measured.values():
        said = np.mean([candidates["expected"] for candidates in values["candidates"]])
        held_out = (np.mean(values["fusion"]) + np.mean(values["as new"])) / 2
        ratios.append(100 * (said / held_out - 1))
    return f"{min(ratios):+.1f} to {max(ratios):+.1f}%"


TEXT = """## No worse than its inputs

`train --rerank fusion` with its defaults chooses, by cross-validation, among its inputs, which are the first stage, `auto`'s
sum and `mslm` alone, and weights that are regularised towards `auto`'s; and, for topics that are far from all training topics,
one of the inputs in the place of learned weights ("far"). The table compares it with BM25 and with `auto` on the collections'
own topics (five folds; scifact also with its training topics; zerozero's are queries with clicked pages) and on {made} topics
with one relevant document that are made from a corpus (two folds; `tools/data/made_topics.py`). Changes of MAP in percent
against BM25, with the topics that lose and gain more than .01 AP and the sum of the AP that they lose.

A topic is *related* if a training topic has a relevant document in common with it. "Topics as new" leaves the votes of such
training topics out, topic by topic: it estimates the gain for a query without related judged topics.

{table}

Below the better of BM25 and `auto` by more than .5%: {below}.

The cross-validated MAP that `train` prints, which comes from the training topics alone, differs from the held-out MAP by
{predicted} (means over folds and of both cases, related and as new).

Learned weights take the place of the best input only if they are better by more than {caution:g} standard errors over the
training topics: the best of several learners is too good in cross-validation, an input that learns nothing is not. The next
table applies other numbers of standard errors to the same cross-validations, and a rule that treats inputs like learners (the
first candidate, inputs first, that is at most half a standard error below the best); percent against the better of BM25 and
`auto`, as the topics are / as new. The last rule is what `fusion` does. The last column chooses the rule on the conditions of
the other collections: among those whose mean is within one percent of the best, the one with the smallest mean loss.

{cautions}

The rules differ in few conditions. With a collection left out, the procedure chooses 1 standard error, and 0 without cisi,
whose titles are the only condition with a loss above .5% by smaller numbers; {caution:g} differs from 1 by .03% on average,
two and more take gains away where topics are few (cacm) or have one relevant document (scifact). Two rules without a gain: to
take a stronger regularisation that passes where the best learner fails (the same as {caution:g} in all conditions), and the
largest lower bound of the gain (one standard error: -.8% on cisi's titles; 1.5: cacm +7.1 instead of +11.2%).

An input for far topics is chosen by the same {caution:g} standard errors, over the best single choice, without a further
constant; which topics are far, by their largest cosine with a training topic, is decided on the training topics, too
(`kernelsearch/learning/ranking/far_queries.py`). It is chosen for claims and for clicks alone, where judged topics come in
groups, so its gain is known from two collections; all other conditions stay as they are. With .5 or 1 standard errors it is
chosen more often: -.4% on cisi's titles and on cran's known items, +.8% on npl's known items; with 0 cisi loses 2%. Two
learners, one per group, changed cran by -.4% with 1.5 standard errors and by -4.0% with 0.

A model that has chosen `auto`'s weights ranks exactly as `auto` does, which scales its features among the best 100 documents:
on npl the same weights with features scaled over the whole pool gave .6% less.

`votes` used to be z-scores like any other feature, so the votes of training topics that have a word in common with a query
counted as much as those of its paraphrase. Now they are multiplied by the nearest training query's cosine to the power of 1.5
(`votes:power=4,fade=1.5`), and the choice among learners counts each training topic twice, with the votes of all others and
with those of unrelated ones alone. Tried on cisi, npl and cran, gain over BM25 in percent as related and as new topics (penalty
.01, no choice): power 2 without fading +47.3 / +6.6, +9.5 / +7.7, +48.0 / +16.4; power 2, fade 1: +47.9 / +22.1, +9.5 / +8.8,
+48.6 / +21.9; power 4, fade 1: +48.3 / +23.8, +9.8 / +8.9, +48.3 / +22.3; power 4, fade 1.5: +44.9 / +26.9, +10.0 / +9.5,
+48.1 / +26.1; without votes +29.3, +9.9, +32.9. Votes for queries above a threshold of the cosine only were between these, and
learning from both versions of every training topic gave up a third of the gain on related topics (+42.8 / +26.6, +10.2 / +9.6,
+44.4 / +28.5).

Two more ways to weight `votes`, on the seven conditions of own topics. Weights of the other features that are learned without
votes, and then the weight of the votes alone by the mean AP of training topics, related and as new: on cran and cisi new
topics gain more than by joint weights only where related ones gain less (fade 1.5 to 6.5), and over the seven conditions the
mean of both changes by -2.9 to +1.6%. And a penalty on the weight of the votes of at most .01 where the other weights are
pulled towards `auto`'s more strongly, since `auto` says nothing about votes: as related and as new topics
scifact +12.0 / +1.0 instead of +9.0 / -.5, its
training topics +30.0 / +.0 instead of +27.5 / +.4, cacm +37.3 / +29.1 instead of +38.8 / +29.6, nfcorpus +44.0 / +28.8 instead
of +44.8 / +29.7, npl +10.7 / +10.4 instead of +10.7 / +10.7, cran and cisi unchanged. It helps topics with one relevant
document and takes about as much from the others, so it was left out."""
