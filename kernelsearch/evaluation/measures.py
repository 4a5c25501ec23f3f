"""Measures of runs with the names of ir_measures and the conventions of trec_eval: topics without judgements don't count."""

from __future__ import annotations

import logging
import math
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError, quote, short
from kernelsearch.core.measures import Found, is_known, value_of
from kernelsearch.trec.qrels import MAX_GRADE, SubtopicGrades

logger = logging.getLogger(__name__)

#: Measures of the command `evaluate`, of Python and of the service, unless others are asked for.
DEFAULT = ("AP", "nDCG@10", "P@10", "R@1000", "RR")
#: {qid: {docid: grade}}
Qrels = Mapping[str, Mapping[str, int]]
#: {qid: [(docid, score), ...]}
Run = Mapping[str, Sequence[tuple[str, float]]]
#: A measure of ir_measures, whose classes have no type annotations.
Measure: TypeAlias = Any
MEASURES = Flag("measures")


def parse_measures(names: Iterable[str], option: Flag = MEASURES) -> list[Measure]:
    """Measures by their names in ir_measures, such as AP, nDCG@10 or P(rel=2)@5, or in trec_eval (map, P_30).

    Names may be in one text, separated by commas. `option` is the one that messages name. Raises OptionError for a name that
    neither knows, and for a measure that can't be computed here.
    """
    import ir_measures

    pipeline: Any = ir_measures.DefaultPipeline
    measures: list[Measure] = []
    for name in names.split(",") if isinstance(names, str) else names:
        try:
            # P alone is trec_eval's name of a list of cutoffs; in ir_measures it lacks one.
            parsed = ir_measures.parse_trec_measure("P") if name == "P" else [ir_measures.parse_measure(name)]
        except (NameError, ValueError, SyntaxError, KeyError, TypeError, AssertionError, RecursionError, MemoryError):
            # A name is parsed as an expression of Python, whose parser raises MemoryError for one that is nested too deep.
            try:
                with redirect_stdout(StringIO()) as printed:
                    parsed = ir_measures.parse_trec_measure(name)
            except (NameError, ValueError, KeyError, TypeError, AssertionError):
                raise OptionError(f"{quote(name)} is not a measure that ir_measures knows", option=option) from None
            if printed.getvalue():  # trec_eval's names of groups, such as official
                logger.warning("%s: %s", short(name), printed.getvalue().strip())
        for measure in parsed:
            _check_parameters(measure, name, option)
            if not pipeline.supports(measure):
                raise OptionError(
                    f"{quote(name)} can't be computed with these parameters, or needs a package that is missing", option=option
                )
        measures += [measure for measure in parsed if measure not in measures]
    if not measures:
        raise OptionError("no measure is given", option=option)
    return measures


def need_subtopics(measures: Iterable[Measure]) -> bool:
    """Whether one of `measures` needs judgements by subtopic, as alpha_nDCG does."""
    return any(map(_by_subtopic, measures))


def _by_subtopic(measure: Measure) -> bool:
    import ir_measures

    known: Any = ir_measures.pyndeval
    return any(measure.NAME == supported.NAME for supported in known.SUPPORTED_MEASURES)


def _check_parameters(measure: Measure, name: str, option: Flag) -> None:
    """Raises OptionError for parameters that the libraries don't check: trec_eval's code aborts the process for P@0."""
    try:
        measure.validate_params()
    except AssertionError as problem:
        raise OptionError(f"{quote(name)}: {short(str(problem).partition('<object')[0])}", option=option) from None
    bounds = {"cutoff": (1, 2**31 - 1), "rel": (1, MAX_GRADE)}
    for parameter, value in measure.params.items():
        low, high = bounds.get(parameter, (-math.inf, math.inf))
        if isinstance(value, int | float) and not low <= value <= high:
            raise OptionError(f"{quote(name)}: {parameter} must be between {low} and {high}", option=option)


@dataclass(frozen=True)
class Evaluation:
    """The values of a run, `values[measure][qid]`, and the topics that count."""

    values: dict[str, dict[str, float]]
    topics: list[str]
    missing: list[str]  #: judged topics that the run doesn't have
    unjudged: list[str]  #: topics of the run without judgements
    measures: dict[str, Measure] = field(default_factory=dict, repr=False)  #: measures by name

    @property
    def answered(self) -> list[str]:
        """The topics that count and that the run has."""
        missing = set(self.missing)
        return [qid for qid in self.topics if qid not in missing]

    def mean(self, measure: str) -> float:
        """The value of the `measure` of this name over all topics: a mean, or a sum for measures that count (NumRet)."""
        total = self.measures[measure].aggregator()
        for value in self.values[measure].values():
            total.add(value)
        return float(total.result()) if self.values[measure] else 0.0

    def array(self, measure: str, topics: Sequence[str]) -> NDArray[np.float64]:
        """The values of `measure`, a name, for some topics in their order, shape (topics,). Raises KeyError for others."""
        return np.array([self.values[measure][qid] for qid in topics], dtype=np.float64)


def trec_order(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """The docids of `ranked` in the order of trec_eval: by score in single precision, ties by docid, both descending."""
    docids = list(map(itemgetter(0), ranked))
    with np.errstate(over="ignore"):  # infinite, as trec_eval reads them
        scores = np.fromiter(map(itemgetter(1), ranked), dtype=np.float32, count=len(ranked))
    if (scores[1:] < scores[:-1]).all():
        return docids
    order = sorted(zip(scores.tolist(), (docid.encode() for docid in docids), range(len(docids)), strict=True), reverse=True)
    return [docids[place] for _, _, place in order]


def evaluate(qrels: Qrels, run: Run, measures: Sequence[Measure], *, complete: bool = True) -> Evaluation:
    """The values of a run per topic.

    `qrels` are {topic id: {docid: grade}}, `run` is {topic id: [(docid, score), ...]}, `measures` are those of
    `parse_measures`. Judged topics that the run lacks count as zero (trec_eval -c), or are left out if not `complete`. Raises
    InputError for ids and grades that trec_eval's code can't take, and OptionError for measures that can't be computed on this
    run.
    """
    _check_ids_and_grades(qrels, run)
    topics = [qid for qid in qrels if complete or qid in run]
    ranks = {qid: _ranks(run[qid]) for qid in topics if qid in run}
    # Grades of other types are left to ir_measures, which refuses them.
    direct = all(type(grade) is int for qid in topics for grade in qrels[qid].values())
    simple = [measure for measure in measures if direct and is_known(measure)]
    diverse = [measure for measure in measures if measure not in simple and _by_subtopic(measure)]
    others = [measure for measure in measures if measure not in simple + diverse]
    for qid in topics if simple or others else []:
        grades = qrels[qid]
        if isinstance(grades, SubtopicGrades) and grades.disputed is not None:
            name, docid = (simple + others)[0], grades.disputed
            raise InputError(
                f"qrels: topic {short(qid)}, document {short(docid)} has different grades in subtopics, and {name} needs one"
            )
    values: dict[str, dict[str, float]] = {str(measure): {} for measure in measures}
    for qid in topics if simple else []:
        found = _found(ranks.get(qid, {}), qrels[qid])
        for measure in simple:
            values[str(measure)][qid] = value_of(measure, found)
    if others and topics:
        values |= _through_ir_measures(others, {qid: dict(qrels[qid]) for qid in topics}, ranks)
    if diverse and topics:
        judged = {qid: grades for qid in topics if isinstance(grades := qrels[qid], SubtopicGrades)}
        if len({subtopic for grades in judged.values() for _, subtopic in grades.subtopics}) < 2:
            raise OptionError(
                f"--measures: {diverse[0]} needs judgements of subtopics, which TREC's qrels have in the second column"
            )
        for measure in diverse:  # one at a time: the library exhausts the run with the first parameters
            values |= _through_ir_measures([measure], judged, ranks)
    return Evaluation(
        values,
        topics,
        [qid for qid in qrels if qid not in run],
        [qid for qid in run if qid not in qrels],
        {str(measure): measure for measure in measures},
    )


def evaluate_runs(
    qrels: Qrels, runs: Mapping[str, Run], measures: Sequence[Measure], *, complete: bool = True
) -> dict[str, Evaluation]:
    """The evaluation of each of `runs`, by label; the other parameters are those of `evaluate`."""
    return {label: evaluate(qrels, run, measures, complete=complete) for label, run in runs.items()}


def _ranks(ranked: Sequence[tuple[str, float]]) -> dict[str, int]:
    """Ranks from 1 in trec_eval's order, by docid; of a document that is listed twice, the lower rank counts."""
    docids = trec_order(ranked)
    ranks = dict(zip(docids, range(1, len(docids) + 1), strict=True))
    if len(ranks) < len(docids):
        ranks = {docid: rank for rank, docid in enumerate(sorted(ranks, key=ranks.__getitem__), 1)}
    return ranks


def _found(ranks: Mapping[str, int], judged: Mapping[str, int]) -> Found:
    """The relevant documents, those of a grade from 1 on, in a list of which `ranks` are the ranks by docid."""
    relevant = sorted((ranks[docid] - 1, grade) for docid, grade in judged.items() if grade > 0 and docid in ranks)
    places, grades = np.array([place for place, _ in relevant], dtype=np.int64), [float(grade) for _, grade in relevant]
    return Found(places, np.array(grades), np.array(sorted((grade for grade in judged.values() if grade > 0), reverse=True)))


def _through_ir_measures(
    measures: Sequence[Measure], judged: Mapping[str, dict[str, int]], ranks: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, float]]:
    """Values by measure and topic, computed by ir_measures; from the grades of subtopics where `judged` has them."""
    import ir_measures

    by_subtopic = [
        ir_measures.Qrel(qid, docid, grade, subtopic)
        for qid, grades in judged.items()
        if isinstance(grades, SubtopicGrades)
        for (docid, subtopic), grade in grades.subtopics.items()
    ]

    # The libraries behind ir_measures break ties in different ways, so they get scores without ties, in trec_eval's order.
    scored = {qid: dict(zip(by_docid, range(len(by_docid), 0, -1), strict=True)) for qid, by_docid in ranks.items()}
    computed: dict[str, dict[str, float]] = {str(measure): {} for measure in measures}
    try:
        for metric in ir_measures.iter_calc(list(measures), by_subtopic or judged, scored):
            computed[str(metric.measure)][metric.query_id] = float(metric.value)
    except (ArithmeticError, ValueError, TypeError, AssertionError, subprocess.CalledProcessError) as problem:
        names = ", ".join(map(str, measures))
        raise OptionError(f"{quote(names)} can't be computed ({short(str(problem))})", option=Flag("measures")) from None
    for measure in measures:
        if measure.NAME == "NumRel":  # the only measure that is not zero for a topic that the run lacks
            for qid in set(judged) - set(ranks):
                computed[str(measure)][qid] = float(sum(grade >= 1 for grade in judged[qid].values()))
    # ir_measures yields topics in no fixed order; means must not depend on it in the last bit. Some measures, alone, have no
    # value for a topic without a relevant document in the list, and zero beside other measures.
    return {name: {qid: by_topic.get(qid, 0.0) for qid in judged} for name, by_topic in computed.items()}


def _check_ids_and_grades(qrels: Qrels, run: Run) -> None:
    """Raises InputError for ids with NUL, at which C strings end, or with half of a surrogate pair, and for huge grades."""
    ids = "".join([*qrels, *run, *(docid for grades in qrels.values() for docid in grades)])
    ids += "".join(map(itemgetter(0), chain.from_iterable(run.values())))
    if "\0" in ids or (not ids.isascii() and _REFUSED.search(ids)):
        raise InputError("an id of a topic or document has NUL or half of a surrogate pair in it, which can't be evaluated")
    for qid, grades in qrels.items():
        if grades and not -MAX_GRADE <= min(grades.values()) <= max(grades.values()) <= MAX_GRADE:
            raise InputError(f"topic {short(qid)}: a grade is not between -{MAX_GRADE} and {MAX_GRADE}")


_REFUSED = re.compile("[\ud800-\udfff]")
