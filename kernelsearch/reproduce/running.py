"""Running conditions: index, train, search and evaluate, by the functions that the command line calls."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.bundled import BUNDLED as BUNDLED_FOLDER
from kernelsearch.api.index import Index
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.cli.inputs import load_documents, load_qrels, load_topics
from kernelsearch.cli.pipelines import pipeline_from_flags
from kernelsearch.cli.training import train_from_flags
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.evaluation.comparison import Comparison, Procedure, compare
from kernelsearch.evaluation.measures import Evaluation, evaluate, parse_measures
from kernelsearch.learning.folds import assign_folds
from kernelsearch.reproduce.conditions import BUNDLED, Collection, Condition, Conditions, filled
from kernelsearch.trec import read_run, write_run

MEASURES = ("AP", "nDCG@10")
#: Folds over topics, where a condition learns and a collection has no training topics.
FOLDS = 5


@dataclass
class Outcome:
    """One collection's evaluations by condition, in the file's order."""

    collection: Collection
    found: dict[str, Evaluation] = field(default_factory=dict)

    def comparison(self, baseline: str) -> Comparison | None:
        """All conditions against the baseline: paired t tests, Holm's correction; None without the baseline."""
        return compare(self.found, baseline, MEASURES, Procedure()) if baseline in self.found else None


def run_collection(
    collection: Collection, conditions: Sequence[Condition], indexes: Path, runs: Path, *, threads: int, reuse: bool
) -> Iterator[tuple[Condition, Evaluation]]:
    """Builds the index where there is none, fits what has to be fitted, and yields each condition's evaluation."""
    index = indexes / collection.name
    if not index.exists():
        build_index(index, partial(load_documents, collection.documents), BuildSettings(), source=collection.documents)
    qrels = load_qrels(collection.qrels)
    measures = parse_measures(MEASURES)
    for condition in conditions:
        if not condition.runs_on(collection):
            continue
        output = runs / collection.name / f"{condition.name}.txt"
        if not (reuse and output.exists()):
            _run(condition, collection, index, output, threads)
        yield condition, evaluate(qrels, read_run(output), measures)


def _run(condition: Condition, collection: Collection, index: Path, output: Path, threads: int) -> None:
    """Fits and searches; a condition that learns ranks no topic with a model that has seen it."""
    if not condition.learns or collection.training:
        _search(condition, index, load_topics(collection.topics), output, threads, *collection.training)
        return
    topics, qrels = load_topics(collection.topics), load_qrels(collection.qrels)
    qids = sorted(qid for qid in topics if qid in qrels)
    folds = assign_folds(len(qids), FOLDS, seed=0)
    with tempfile.TemporaryDirectory() as scratch:
        parts = []
        for fold in range(FOLDS):
            learned, run = Path(scratch) / f"learned{fold}.tsv", Path(scratch) / f"run{fold}.txt"
            with write_file(learned) as stream:
                stream.writelines(f"{qid}\t{topics[qid]}\n" for qid, of in zip(qids, folds, strict=True) if of != fold)
            ranked = {qid: topics[qid] for qid, of in zip(qids, folds, strict=True) if of == fold}
            _search(condition, index, ranked, run, threads, str(learned), collection.qrels)
            parts.append(run)
        with write_file(output) as stream:
            stream.writelines(part.read_text(encoding="utf-8") for part in parts)


def _search(condition: Condition, index: Path, topics: dict[str, str], output: Path, threads: int, *training: str) -> None:
    """Fits what the condition asks for and writes its run."""
    names = {BUNDLED: str(BUNDLED_FOLDER), "{model}": str(output.with_suffix(".model"))}
    if training:
        names |= {"{topics}": training[0], "{qrels}": training[1]}
    if condition.train:
        train_from_flags(["--index", str(index), *filled(condition.train, names)])
    pipeline = pipeline_from_flags(filled(condition.flags, names), Index(index))
    lists = run_topics(pipeline, [Topic(qid, text) for qid, text in topics.items()], threads=threads)
    write_run(output, ((found.qid, found.docids, found.scores) for found in lists), tag=condition.name)


def selected(
    conditions: Conditions, names: Sequence[str], collections: Sequence[str]
) -> tuple[list[Condition], list[Collection]]:
    """The conditions and collections that were asked for; nothing asked for means all."""
    known = {one.name: one for one in conditions.conditions}
    for name in names:
        if name not in known and name not in {one.name for one in conditions.scripts}:
            scripts = ", ".join(one.name for one in conditions.scripts)
            raise InputError(
                f"{name}: no such condition; known: {', '.join(known)}{'; scripts: ' + scripts if scripts else ''}"
            )
    for name in collections:
        if name not in conditions.collections:
            raise InputError(f"--on: {name}: no such collection; known: {', '.join(conditions.collections)}")
    chosen = [one for name, one in known.items() if not names or name in names]
    return chosen, [one for name, one in conditions.collections.items() if not collections or name in collections]
