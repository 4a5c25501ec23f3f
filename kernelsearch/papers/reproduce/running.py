"""Running conditions: index, train, search and evaluate, with the functions that the verbs call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.bundled import BUNDLED_FOLDER
from kernelsearch.api.index import Index
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.cli.flags import pipeline_from_flags
from kernelsearch.cli.inputs import load_documents, load_qrels, load_topics
from kernelsearch.cli.training import train_from_flags
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.files import write_file
from kernelsearch.engines.processes import ProcessEngine
from kernelsearch.evaluation.comparison import Comparison, Procedure, compare
from kernelsearch.evaluation.measures import Evaluation, evaluate, parse_measures
from kernelsearch.learning.folds import topic_folds
from kernelsearch.papers.reproduce.conditions import (
    BUNDLED,
    Collection,
    Condition,
    Conditions,
    collections_folder,
    fill_placeholders,
)
from kernelsearch.trec import read_run, write_run

#: Measures of every condition.
MEASURES = ("AP", "nDCG@10")
#: Folds over topics, for conditions that learn on a collection without training topics.
FOLDS = 5


@dataclass
class Outcome:
    """The evaluations of the conditions on one collection, by condition and in the order of the file."""

    collection: Collection
    evaluations: dict[str, Evaluation] = field(default_factory=dict)

    def comparison(self, baseline: str) -> Comparison | None:
        """All conditions compared with the baseline by paired t tests with Holm's correction; None without the baseline."""
        if baseline not in self.evaluations:
            return None
        return compare(self.evaluations, baseline, MEASURES, Procedure(all_judged=True))


def run_conditions(
    conditions: Conditions,
    chosen: Sequence[Condition],
    collections: Sequence[Collection],
    indexes: Path,
    runs: Path,
    *,
    threads: int,
    reuse: bool,
    report: Callable[[str], None],
) -> tuple[list[Outcome], list[str]]:
    """Runs conditions on the collections that are found and compares their figures with the expected ones.

    Parameters
    ----------
    conditions : all conditions, with the expected figures
    chosen : those to run
    collections : the collections to run them on
    indexes, runs : folders
    threads : search threads
    reuse : evaluate run files that exist instead of searching again
    report : called with each line about a condition or a collection

    Returns the outcomes by collection and the verdict of each figure.
    """
    folder = collections_folder()
    outcomes: list[Outcome] = []
    verdicts: list[str] = []
    with ProcessEngine(threads) as engine:
        for collection in collections if chosen else ():
            located = collection.locate(folder)
            if located is None:
                report(f"{collection.name:<9} skipped: not found in {folder}")
                continue
            outcome = Outcome(located)
            try:
                for condition, evaluation in run_collection(located, chosen, indexes, runs, engine=engine, reuse=reuse):
                    outcome.evaluations[condition.name] = evaluation
                    cells, judged = _judge(conditions, condition, collection.name, evaluation)
                    verdicts += judged
                    report(f"{collection.name:<9} {condition.name:<9} {'  '.join(cells)}")
            except (InputError, OptionError) as problem:
                if not located.documents.startswith("irds:"):
                    raise
                report(f"{collection.name:<9} skipped: {problem}")
                continue
            outcomes.append(outcome)
    return outcomes, verdicts


def _judge(
    conditions: Conditions, condition: Condition, collection: str, evaluation: Evaluation
) -> tuple[list[str], list[str]]:
    """The figures of a condition as text, and their verdicts."""
    cells, verdicts = [], []
    for measure in evaluation.values:
        expected, measured = condition.expected.get(collection, {}).get(measure), evaluation.mean(measure)
        verdict = "new" if expected is None else conditions.judge(expected, measured)
        remark = f" (expected {expected:.4f})" if verdict not in ("OK", "new") else ""
        cells.append(f"{measure} {measured:.4f} {verdict}{remark}")
        verdicts.append(verdict)
    return cells, verdicts


def run_collection(
    collection: Collection, conditions: Sequence[Condition], indexes: Path, runs: Path, *, engine: Engine, reuse: bool
) -> Iterator[tuple[Condition, Evaluation]]:
    """Builds the index where there is none, fits what has to be fitted, and yields the evaluation of each condition.

    `collection` is searched under `conditions`; the other parameters are those of `run_conditions`.
    """
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
            _run(condition, collection, index, output, engine)
        yield condition, evaluate(qrels, read_run(output), measures)


def _run(condition: Condition, collection: Collection, index: Path, output: Path, engine: Engine) -> None:
    """Fits and searches; no topic is ranked with a model that learned from it."""
    if not condition.learns or collection.training:
        _search(condition, index, load_topics(collection.topics), output, engine, *collection.training)
        return
    topics, qrels = load_topics(collection.topics), load_qrels(collection.qrels)
    qids = sorted(qid for qid in topics if qid in qrels)
    folds = topic_folds(qids, FOLDS)
    with tempfile.TemporaryDirectory() as scratch:
        parts = []
        for fold in range(FOLDS):
            training, run = Path(scratch) / f"training{fold}.tsv", Path(scratch) / f"run{fold}.txt"
            with write_file(training) as stream:
                stream.writelines(f"{qid}\t{topics[qid]}\n" for qid, number in zip(qids, folds, strict=True) if number != fold)
            ranked = {qid: topics[qid] for qid, number in zip(qids, folds, strict=True) if number == fold}
            _search(condition, index, ranked, run, engine, str(training), collection.qrels)
            parts.append(run)
        with write_file(output) as stream:
            stream.writelines(part.read_text(encoding="utf-8") for part in parts)


def _search(condition: Condition, index: Path, topics: dict[str, str], output: Path, engine: Engine, *training: str) -> None:
    """Fits what the condition needs and writes its run; `training` are the files of topics and judgements to learn from."""
    names = {BUNDLED: str(BUNDLED_FOLDER), "{model}": str(output.with_suffix(".model"))}
    if training:
        names |= {"{topics}": training[0], "{qrels}": training[1]}
    if condition.train:
        train_from_flags(["--index", str(index), *fill_placeholders(condition.train, names)])
    pipeline = pipeline_from_flags(fill_placeholders(condition.flags, names), Index(index))
    lists = run_topics(pipeline, [Topic(qid, text) for qid, text in topics.items()], engine=engine)
    write_run(output, ((ranked.qid, ranked.docids, ranked.scores) for ranked in lists), tag=condition.name)


def select(
    conditions: Conditions, names: Sequence[str], collections: Sequence[str]
) -> tuple[list[Condition], list[Collection]]:
    """The conditions and collections with these names, all where none is named. Raises InputError for an unknown name."""
    known = {condition.name: condition for condition in conditions.conditions}
    scripts = [script.name for script in conditions.scripts]
    for name in names:
        if name not in known and name not in scripts:
            raise InputError(
                f"{name}: no such condition; known: {', '.join(known)}{'; scripts: ' + ', '.join(scripts) if scripts else ''}"
            )
    for name in collections:
        if name not in conditions.collections:
            raise InputError(f"--on: {name}: no such collection; known: {', '.join(conditions.collections)}")
    chosen = [condition for name, condition in known.items() if not names or name in names]
    places = [collection for name, collection in conditions.collections.items() if not collections or name in collections]
    return chosen, places
