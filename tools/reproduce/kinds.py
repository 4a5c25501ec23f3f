"""Kinds of queries and documents that docs/reproductions/auto.md does not have: the methods at their defaults on each.

    python -m tools.reproduce.kinds [--collections FOLDER] [--scratch FOLDER] [--only "cran, misspelled;code"]

What was measured is kept in the scratch folder; the page, docs/reproductions/kinds.md, is written from all of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import kernelsearch
from tools import ROOT
from tools.data.altered_topics import misspelled, passages, questions, with_identifiers
from tools.data.datasets import DATASETS, Judgements, Topics, add_collections_option, judged_topics
from tools.data.made_topics import known_items, read_corpus
from tools.data.source_code import code_topics, in_camel_case, standard_library
from tools.reproduce.auto_tables import corpus_index
from tools.reproduce.pages import markdown_table, risk, rounded

TOPICS, MADE, SEED = 150, 200, 1
METHODS = {"BM25": None, "klsa": "klsa", "mslm": "mslm", "pert": "pert", "auto": "auto"}
COLLECTIONS = ("cran", "cacm", "cisi")
KINDS = ("misspelled", "questions", "joined words", "known items, joined words", "passages")
CODE = ("code", "code in camel case")
PAGE = ROOT / "docs" / "reproductions" / "kinds.md"


def open_condition(name: str, collections: Path, scratch: Path) -> tuple[kernelsearch.Index, Topics, Judgements]:
    """The index, the topics and the judgements of the condition `name`; made documents are indexed in `scratch`."""
    if name in CODE:
        documents, topics, qrels = code_topics(standard_library(), TOPICS)
        documents = documents if name == "code" else in_camel_case(documents)
        return corpus_index(documents, scratch, name.replace(" ", "-")), topics, qrels
    collection, _, kind = name.partition(", ")
    dataset = DATASETS[collection]
    topics, qrels = dataset.read(collections)
    if kind in ("misspelled", "questions"):
        index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
        return index, misspelled(topics) if kind == "misspelled" else questions(topics), qrels
    documents = read_corpus(collections / dataset.folder / dataset.corpus)
    if kind == "passages":
        documents, qrels = passages(documents, qrels)
        return corpus_index(documents, scratch, f"{collection}-passages"), topics, qrels
    index = corpus_index(with_identifiers(documents), scratch, f"{collection}-joined")
    return index, *(known_items(documents, MADE, codes=False) if kind.startswith("known items") else (topics, qrels))


def measure(name: str, collections: Path, scratch: Path) -> dict[str, list[float]]:
    """AP per topic of every method under the condition `name`, for at most TOPICS topics, drawn by chance."""
    index, topics, qrels = open_condition(name, collections, scratch)
    qids = judged_topics(topics, qrels)
    drawn = [qids[place] for place in sorted(np.random.default_rng(SEED).permutation(len(qids))[:TOPICS])]
    evaluations = index.evaluate({qid: topics[qid] for qid in drawn}, qrels, METHODS, measures=("AP",)).evaluations
    return {label: [evaluations[label].values["AP"][qid] for qid in drawn] for label in METHODS}


def section(measured: dict[str, dict[str, list[float]]]) -> str:
    """The text of the page; `measured` has AP per topic by condition and method."""
    rows = []
    for name, values in measured.items():
        base = np.array(values["BM25"])
        cells = [name, str(len(base)), rounded(float(base.mean()))]
        for label in list(METHODS)[1:]:
            change = np.array(values[label]) - base
            gain, error = 100 * change.mean() / base.mean(), 100 * change.std() / np.sqrt(len(base)) / base.mean()
            cells.append(f"{gain:+.1f} ±{error:.1f} {risk(change)}")
        rows.append(cells)
    return TEXT.format(table=markdown_table(("", "topics", *METHODS), rows))


def main() -> None:
    """Measures what the scratch folder lacks and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "reproduce-kinds", help="what is kept (%(default)s)")
    parser.add_argument("--only", default="", help="measure these conditions only, separated by semicolons")
    arguments = parser.parse_args()
    wanted, measured = set(filter(None, arguments.only.split(";"))), {}
    for name in (*(f"{collection}, {kind}" for kind in KINDS for collection in COLLECTIONS), *CODE):
        cache = arguments.scratch / "results" / f"{name}.json"
        if not cache.exists() and (not wanted or name in wanted):
            cache.parent.mkdir(parents=True, exist_ok=True)
            cache.write_text(json.dumps(measure(name, arguments.collections, arguments.scratch)), encoding="utf-8")
        if cache.exists():
            measured[name] = json.loads(cache.read_text(encoding="utf-8"))
            print(name, {label: round(float(np.mean(values)), 4) for label, values in measured[name].items()}, flush=True)
    PAGE.write_text(section(measured), encoding="utf-8")


TEXT = """# Further kinds of queries and documents

`python -m tools.reproduce.kinds` measures this page and writes it: changes in MAP against BM25 (k1 .9, b .4) in percent, with
the standard error over topics, the topics that lose and gain more than .01 AP, and the sum of the AP lost, on complete lists of
1,000 documents. At most 150 topics each, all settings at their defaults.

- *misspelled*: the collection's topics, with one wrong letter in 30% of the words. *questions*: its topics between words that
  say nothing ("does anybody know about ... and how do you know"). [The page of `auto`](auto.md) has long queries
  (*abstracts*, 60 words) and others.
- *joined words*: 30% of the pairs of neighbouring words in documents are written as `boundaryLayer` or `boundary_layer`, with
  the collection's topics and with known items.
- *passages*: documents cut into passages of 60 words, each of which begins in the middle of the one before, and near
  duplicates of some of them. A passage has its document's judgement.
- *code*: functions of Python's standard library, without their docstrings, for the first sentence of a docstring; one right
  answer. *in camel case*: the same with names such as `parseJsonFile` for `parse_json_file`.

{table}

## Words inside identifiers

Lucene's analyser makes one term of `parse_json_file` and of `parseJsonFile`, so a query in plain words matches few words of a
program. On an index of source code, which is one where at least 6% of the tokens are words joined by `_`, `.` or `:` (cran,
cacm, cisi and npl: less than .02%; the standard library: 17%), `auto` finds them again from the vocabulary: at the
separators, and by segmentation into words that other terms have (`kernelsearch/kernels/identifiers.py`). The feature
`parts` is BM25 where a term counts as an occurrence of each word inside it; it has weight 16 in `auto` and adds candidates.
Learned fusion has it as a feature and a source.

On the standard library, `parts` alone, computed over all documents, has MAP .3150 where BM25 has .2135 (200 topics of an
earlier draw), and .2975 with separators alone; BM25 of an index that has the words of identifiers in addition has .3063. The
weight was chosen on 55 of these topics: 4, 8 and 16 change MAP by +11, +30 and +57%; `auto` without the feature changes it by
+5% (all 200). On prose with joined words, whose share of joined words is 2 to 5%, weight 16 takes away half of `auto`'s gain,
hence the limit of 6%.
"""


if __name__ == "__main__":
    main()
