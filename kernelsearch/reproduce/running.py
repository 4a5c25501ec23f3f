"""Running conditions: index, search and evaluate, by the same functions that the command line runs."""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelsearch import index as index_verb
from kernelsearch import search as search_verb
from kernelsearch import train as train_verb
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.demo import DATA
from kernelsearch.evaluation.comparison import Comparison, Procedure, compare
from kernelsearch.evaluation.measures import Evaluation, evaluate, parse_measures
from kernelsearch.reproduce.conditions import BUNDLED, Collection, Condition, Conditions, filled
from kernelsearch.trec import read_run
from kernelsearch.tuning.folds import assign_folds

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
        with _quiet():
            index_verb.main(["--input", collection.documents, "--index", str(index)])
    qrels = load_qrels(collection.qrels)
    measures = parse_measures(MEASURES)
    for condition in conditions:
        if not condition.runs_on(collection):
            continue
        output = runs / collection.name / f"{condition.name}.txt"
        if not (reuse and output.exists()):
            with _quiet():
                _run(condition, collection, index, output, ["--threads", str(threads)])
        yield condition, evaluate(qrels, read_run(output), measures)


def _run(condition: Condition, collection: Collection, index: Path, output: Path, flags: list[str]) -> None:
    """Fits and searches; a condition that learns ranks no topic with a model that has seen it."""
    if not condition.learns or collection.training:
        _search(condition, index, collection.topics, output, flags, *collection.training)
        return
    topics, qrels = load_topics(collection.topics), load_qrels(collection.qrels)
    qids = sorted(qid for qid in topics if qid in qrels)
    folds = assign_folds(len(qids), FOLDS, seed=0)
    with tempfile.TemporaryDirectory() as scratch:
        parts = []
        for fold in range(FOLDS):
            places = {name: Path(scratch) / f"{name}{fold}" for name in ("learned.tsv", "ranked.tsv", "run.txt")}
            for name, chosen in (("learned.tsv", folds != fold), ("ranked.tsv", folds == fold)):
                with write_file(places[name]) as stream:
                    stream.writelines(f"{qid}\t{topics[qid]}\n" for qid, one in zip(qids, chosen, strict=True) if one)
            parts.append(places["run.txt"])
            learned, ranked = str(places["learned.tsv"]), str(places["ranked.tsv"])
            _search(condition, index, ranked, parts[-1], flags, learned, collection.qrels)
        with write_file(output) as stream:
            stream.writelines(part.read_text(encoding="utf-8") for part in parts)


def _search(condition: Condition, index: Path, topics: str, output: Path, flags: list[str], *training: str) -> None:
    names = {BUNDLED: str(DATA), "{model}": str(output.with_suffix(".model"))}
    if training:
        names |= {"{topics}": training[0], "{qrels}": training[1]}
    if condition.train:
        train_verb.main(["--index", str(index), *filled(condition.train, names)])
    where = ["--index", str(index), "--topics", topics, "--output", str(output)]
    search_verb.main([*where, *flags, *filled(condition.flags, names)])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Holds back the verbs' notices, which would stand between the table's lines; errors come as exceptions."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


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
