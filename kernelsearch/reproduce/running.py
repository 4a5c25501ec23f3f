"""Running conditions: index, search and evaluate, by the same functions that the command line runs."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kernelsearch import index as index_verb
from kernelsearch import search as search_verb
from kernelsearch.errors import InputError
from kernelsearch.evaluation.comparison import Comparison, Procedure, compare
from kernelsearch.evaluation.measures import Evaluation, evaluate, parse_measures
from kernelsearch.inputs import load_qrels
from kernelsearch.reproduce.conditions import Collection, Condition, Conditions
from kernelsearch.trec import read_run

MEASURES = ("AP", "nDCG@10")


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
    """Builds the index where there is none and yields each condition's evaluation."""
    index = indexes / collection.name
    if not index.exists():
        with _quiet():
            index_verb.main(["--input", collection.documents, "--index", str(index)])
    qrels = load_qrels(collection.qrels)
    measures = parse_measures(MEASURES)
    for condition in conditions:
        output = runs / collection.name / f"{condition.name}.txt"
        if not (reuse and output.exists()):
            flags = ["--index", str(index), "--topics", collection.topics, "--output", str(output), "--threads", str(threads)]
            with _quiet():
                search_verb.main([*flags, *condition.flags])
        yield condition, evaluate(qrels, read_run(output), measures)


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
