"""Simulating a click log from judged topics: lists of a search engine, and users who follow a click model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelsearch.clicks.models import ClickModel, attraction
from kernelsearch.clicks.records import Impression, normalise_query
from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines
from kernelsearch.trec.qrels import read_qrels
from kernelsearch.trec.runs import read_run
from kernelsearch.trec.topics import read_topics


@dataclass(frozen=True)
class Need:
    """A query of simulated users, its ranked list (docids), and the grades of the documents that are relevant to them."""

    query: str
    ranking: tuple[str, ...]
    grades: dict[str, int]


def simulate(
    needs: Sequence[Need],
    impressions: int,
    *,
    model: ClickModel,
    seed: int,
    depth: int = 10,
    explore: float = 0.3,
    noise: float = 0.05,
    others: Sequence[str] = (),
) -> Iterator[Impression]:
    """Yields impressions of `needs`, as many as `impressions` says, with clicks by `model`, all drawn with `seed`.

    Every query occurs once; further ones are drawn by popularity, which falls as rank^-0.7.

    With probability `explore` a list contains one to three documents that its ranking lacks, at random ranks: relevant
    documents that the search misses, or any of `others`, with equal probability. Another ranker, or one that explores, would
    show such documents; without them no document without a query term could ever be clicked. `depth` is the length of a list,
    `noise` the click probability of a document that is not relevant. Raises InputError without needs.
    """
    if not needs:
        raise InputError("simulate: no query with a list and judgements")
    rng = np.random.default_rng(seed)
    top = max((grade for need in needs for grade in need.grades.values()), default=1)
    popularity = np.empty(len(needs))
    popularity[rng.permutation(len(needs))] = np.arange(1, len(needs) + 1) ** -0.7
    once = rng.permutation(len(needs))[:impressions]
    again = rng.choice(len(needs), size=max(impressions - len(needs), 0), p=popularity / popularity.sum())
    for number in rng.permutation(np.concatenate([once, again])).tolist():
        need = needs[number]
        shown = _explored(need, depth, others, rng) if rng.random() < explore else list(need.ranking[:depth])
        if not shown:
            continue
        grades = np.array([need.grades.get(docid, 0) for docid in shown])
        clicked = model.clicks(attraction(grades, top=top, noise=noise), rng)
        yield Impression(normalise_query(need.query), tuple(shown), tuple(range(1, len(shown) + 1)), tuple(clicked.tolist()))


def _explored(need: Need, depth: int, others: Sequence[str], rng: np.random.Generator) -> list[str]:
    shown = list(need.ranking[:depth])
    missed = sorted(docid for docid, grade in need.grades.items() if grade > 0 and docid not in shown)
    for _ in range(int(rng.integers(1, 4))):
        pool: Sequence[str] = missed if missed and (not others or rng.random() < 0.5) else others
        if not len(pool):
            break
        docid = str(pool[int(rng.integers(len(pool)))])
        if docid not in shown:
            shown.insert(int(rng.integers(len(shown) + 1)), docid)
    return shown[:depth]


def needs_from_search(
    search: Callable[[list[str]], Sequence[Sequence[str]]],
    topics: str | Path,
    qrels: str | Path,
    variants: str | Path | None,
) -> list[Need]:
    """Needs with the lists of a search for the judged topics and their variants; `search` returns the docids for each text.

    `topics` and `qrels` are files, `variants` is a TSV of topic id and another wording. Raises InputError where no topic is
    judged.
    """
    judged = read_qrels(qrels)
    wordings = [(qid, text) for qid, text in read_topics(topics).items() if qid in judged]
    known = {qid for qid, _ in wordings}
    if variants is not None:
        for number, line in lines(variants):
            qid, _, text = line.partition("\t")
            if qid not in known or not text.strip():
                raise InputError(f"{variants}: line {number} is not the id of a judged topic, a tab and a wording")
            wordings.append((qid, text))
    if not wordings:
        raise InputError(f"judges none of the topics of {topics}", path=qrels)
    lists = search([text for _, text in wordings])
    return [Need(text, tuple(ranking), judged[qid]) for (qid, text), ranking in zip(wordings, lists, strict=True)]


def needs_from_run(run: str | Path, topics: str | Path, qrels: str | Path) -> list[Need]:
    """Needs with the lists of a run file for the topics that the file `qrels` judges. Raises InputError where it has none."""
    judged, lists, texts = read_qrels(qrels), read_run(run), read_topics(topics)
    needs = [
        Need(text, tuple(docid for docid, _ in lists[qid]), judged[qid])
        for qid, text in texts.items()
        if qid in judged and qid in lists
    ]
    if not needs:
        raise InputError(f"has no list for a judged topic of {topics}", path=run)
    return needs
