"""From a pipeline and the options of search to a run file and the config file beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kernelsearch.api import config
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.cli import pyserini_flags
from kernelsearch.cli.inputs import load_topics
from kernelsearch.cli.search_settings import IN_CONFIG, SearchSettings
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.engines import make_engine
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.trec import read_run, write_run
from kernelsearch.trec.runs import RankedList
from kernelsearch.trec.topics import parse_part, topics_part

#: Number of queries that kept the list of the previous stage, by method and reason.
Fallbacks = Counter[tuple[str, str]]


def search_topics(pipeline: Pipeline, settings: SearchSettings, *, progress: Progress = silent) -> tuple[int, Fallbacks]:
    """Searches for the topics of `--topics` in `settings` with `pipeline` and writes the run file; reports to `progress`.

    Returns the number of queries in the file, and how many queries each method could not act on, by reason.
    """
    assert settings.topics is not None and settings.output is not None
    topics = pyserini_flags.named_topics(settings.topics, settings.topics_field)
    if topics is None:
        topics = load_topics(settings.topics, settings.topics_format, settings.topics_field)
    if settings.tokenizer is not None:
        topics = pyserini_flags.tokenise(topics, settings.tokenizer)
    run = _read_run(settings.run, topics, settings.topics) if settings.run else None
    if settings.shard is not None:
        topics = topics_part(topics, parse_part(settings.shard))
    tag = settings.tag or "-".join(["kernelsearch", *(reranker.name for reranker in pipeline.rerankers)])
    if any(letter.isspace() for letter in tag):
        raise OptionError(f"--tag: {tag!r} contains white space")
    chosen = [Topic(qid, text, None if run is None else run[qid]) for qid, text in topics.items() if run is None or qid in run]
    fallbacks: Fallbacks = Counter()

    def lists() -> Iterator[RankedList]:
        ranked_lists = run_topics(
            pipeline,
            chosen,
            engine=engine,
            batch_size=settings.batch_size,
            threads=settings.threads,
            source=settings.run or "",
            progress=progress,
        )
        for ranked in ranked_lists:
            fallbacks.update(ranked.candidates.fallbacks)
            yield ranked.qid, *pyserini_flags.filter_list(ranked.docids, ranked.scores, ranked.qid, settings)

    # The analyser that --stopwords sets belongs to the index that this process has opened.
    with make_engine(settings, 1 if settings.stopwords else settings.threads) as engine:
        count = write_run(settings.output, lists(), settings.output_format, tag)
    return count, fallbacks


def _read_run(path: str, topics: dict[str, str], source: str) -> dict[str, list[tuple[str, float]]]:
    """The run of a file, {qid: [(docid, score), ...]}; raises InputError for a topic that `source`, the topics' file, lacks."""
    run = read_run(path)
    unknown = [qid for qid in run if qid not in topics]
    if unknown:
        raise InputError(f"{path}: topic {unknown[0]} is not in {source}")
    return run


def write_recipe(pipeline: Pipeline, settings: SearchSettings, first: FirstStageSettings) -> None:
    """Writes OUTPUT.toml: all options, defaults included, and the versions and files that the run was made with.

    `pipeline` made the run, with the options of search in `settings` and those of the first stage in `first`.
    """
    values = settings.to_dict()
    verb = {option.key: values[option.key] for option in IN_CONFIG if option.key != "query"}
    files = {"topics": settings.topics, "run": settings.run, "output": settings.output}
    path = f"{settings.output}.toml"
    again = f"python -m kernelsearch.search --config {path} makes {settings.output} again"
    config.write(path, verb, first.to_dict(), pipeline.methods, config.made_with(pipeline, files), again)
