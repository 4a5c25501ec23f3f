"""From the options of `clicks simulate` to a simulated click log."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.cli.flags import open_index
from kernelsearch.cli.settings import IndexReaderSettings
from kernelsearch.clicks.models import Cascade, ClickModel, PositionBased
from kernelsearch.clicks.records import write_log
from kernelsearch.clicks.simulate import needs_from_run, needs_from_search, simulate
from kernelsearch.core.errors import OptionError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import option
from kernelsearch.core.progress import Progress, silent


@dataclass(frozen=True, kw_only=True)
class SimulateSettings(IndexReaderSettings):
    """Options of simulate; the lists that are shown are those of BM25 on the index."""

    run: str | None = option(None, "run file whose lists are shown, instead of those of an index")
    topics: str | None = option(None, "topics that simulated users search for")
    qrels: str | None = option(None, "relevance judgements that drive the clicks")
    variants: str | None = option(None, "TSV of qid and another wording of the topic; logged like the topics (needs --index)")
    output: str | None = option(None, "file to write sessions to, as JSON lines")
    impressions: int = option(10_000, "number of lists to show", low=1)
    model: str = option("position", "click model", choices=("position", "cascade"))
    depth: int = option(10, "documents per list", low=1)
    explore: float = option(0.3, "share of lists with documents that the search misses", low=0, high=1)
    noise: float = option(0.05, "click probability of a document that is not relevant, once looked at", low=0, high=0.9)
    seed: int = option(1, "seed for the simulation; the same seed gives the same bytes", low=0)


def simulate_log(settings: SimulateSettings, *, progress: Progress = silent) -> tuple[int, int]:
    """Writes the simulated click log that `settings` describe; returns the number of impressions and of different queries.

    Long steps report to `progress`. Raises OptionError where the lists come from nowhere, or from two places.
    """
    if bool(settings.index) == bool(settings.run):
        raise OptionError("--index or --run: give one of them")
    if settings.run and settings.variants:
        raise OptionError("--variants needs --index: a run has no lists for them")
    assert settings.topics is not None and settings.qrels is not None and settings.output is not None
    check_output("output", settings.output, (settings.run, settings.topics, settings.qrels, settings.variants))
    others: list[str] = []
    if settings.run:
        needs = needs_from_run(settings.run, settings.topics, settings.qrels)
    else:
        index = open_index(settings, progress)
        docids = index.forward.docids

        def search(texts: list[str]) -> list[list[str]]:
            lists = index.lucene.search(index.lucene.queries(texts), settings.depth)
            return [docids.take(ranked.docs) for ranked in lists]

        needs = needs_from_search(search, settings.topics, settings.qrels, settings.variants)
        others = sorted(docids.take(index.forward.live_docs))
    model: ClickModel = PositionBased() if settings.model == "position" else Cascade()
    sessions = simulate(
        needs,
        settings.impressions,
        model=model,
        seed=settings.seed,
        depth=settings.depth,
        explore=settings.explore,
        noise=settings.noise,
        others=others,
    )
    return write_log(sessions, settings.output), len(needs)
