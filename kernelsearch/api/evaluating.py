"""Evaluation of methods from Python: from topics and judgements to measures and a comparison with the first method."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelsearch.api import keywords
from kernelsearch.api.pipeline import fallback_messages
from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.tables import import_pandas
from kernelsearch.evaluation.comparison import Comparison, compare
from kernelsearch.evaluation.measures import DEFAULT, Evaluation, evaluate, parse_measures
from kernelsearch.evaluation.tables import render
from kernelsearch.trec.runs import printed_scores

if TYPE_CHECKING:
    from pandas import DataFrame

    from kernelsearch.api.index import Index

logger = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Measured:
    """Methods measured on the same topics.

    `evaluations` has the values per topic of each method, `measures` are the names of the measures, `comparison` is that with
    the first method (None for a single one). Prints as the tables of `kernelsearch.evaluate`.
    """

    evaluations: dict[str, Evaluation]
    measures: tuple[str, ...]
    comparison: Comparison | None

    def __repr__(self) -> str:
        return render("text", self.evaluations, list(self.measures), self.comparison).rstrip("\n")

    def to_latex(self) -> str:
        """The tables in LaTeX, with the rules of the package booktabs."""
        return render("latex", self.evaluations, list(self.measures), self.comparison)

    def to_dataframe(self, per_query: bool = False) -> DataFrame:
        """The mean of each measure as a pandas DataFrame, one row per method, one column per measure.

        With `per_query` the values: one row per method, measure and topic, with the columns method, qid, measure and value.
        """
        pandas = import_pandas()
        if per_query:
            rows = [
                (name, qid, measure, value)
                for name, entry in self.evaluations.items()
                for measure in self.measures
                for qid, value in entry.values[measure].items()
            ]
            return pandas.DataFrame(rows, columns=["method", "qid", "measure", "value"])
        means = {name: [entry.mean(measure) for measure in self.measures] for name, entry in self.evaluations.items()}
        return pandas.DataFrame.from_dict(means, orient="index", columns=list(self.measures))


def evaluate_methods(
    index: Index,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    methods: Mapping[str, keywords.Rerank] | Sequence[str | None],
    *,
    measures: Sequence[str] = DEFAULT,
    hits: int = 1000,
    threads: int = 1,
    **options: Any,
) -> Measured:
    """Searches the judged topics with each method and measures the lists; the parameters are those of `Index.evaluate`.

    Queries that a method could not act on are counted in a warning.
    """
    methods = [methods] if isinstance(methods, str) else methods
    runs = methods if isinstance(methods, Mapping) else {name or "first stage": name for name in methods}
    judged = {qid: qrels[qid] for qid in topics if qid in qrels}
    if not judged:
        raise InputError("none of them is judged", option=Flag("topics"))
    if not runs:
        raise InputError("methods: none is named")
    wanted = parse_measures(measures)
    texts = {qid: topics[qid] for qid in judged}
    evaluations = {}
    for name, rerank in runs.items():
        lists = index.search_batch(texts, rerank, k=hits, threads=threads, **{"hits": hits, **options})
        for line in fallback_messages(Counter(reason for results in lists.values() for reason in results.fallbacks)):
            logger.warning("%s", line)
        # Scores as a run file has them, in which ties keep the order of the list.
        run = {
            qid: list(zip(results.docids, map(float, printed_scores(results.scores)), strict=True))
            for qid, results in lists.items()
            if len(results)
        }
        evaluations[name] = evaluate(judged, run, wanted)
    names = tuple(str(measure) for measure in wanted)
    comparison = compare(evaluations, next(iter(evaluations)), names) if len(evaluations) > 1 else None
    return Measured(evaluations, names, comparison)
