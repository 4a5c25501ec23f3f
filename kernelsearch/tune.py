"""`python -m kernelsearch.tune`, `kernelsearch.tune()`: finds good settings by k-fold cross-validation over topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelsearch.api import keywords
from kernelsearch.api.index import Index
from kernelsearch.api.judged import Judgements, Topics
from kernelsearch.api.tune import Tuned
from kernelsearch.cli import console
from kernelsearch.cli.flags import SINGLE_QUERY, make_parser, open_index, parse, read_flags, read_pipeline, require
from kernelsearch.cli.inputs import load_qrels, load_topics, qrels_from, topics_from
from kernelsearch.cli.settings import TOPIC_FORMATS, QuerySettings
from kernelsearch.cli.verbs import CallableModule
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import option
from kernelsearch.lucene.shards import Source
from kernelsearch.tuning.space import default_grid

EXAMPLES = """--try NAME=VALUES says what to try, and may be repeated: k1=0.9,1.2 for the first stage, klsa.z=1,5 for a method,
b=0.1..0.9 or mu=log:100..5000 for a range to draw from with --samples; values that are lists are separated by |. Parameters
of train, such as klsa.kernel or mslm.window, are fitted once per combination, into OUTPUT.fitted/.

examples:
  python -m kernelsearch.tune --index indexes/cran --topics topics.tsv --qrels qrels.txt --rerank klsa
  python -m kernelsearch.tune --index indexes/cran --topics topics.tsv --qrels qrels.txt --rerank klsa \\
      --try klsa.z=1,5,10 --try klsa.lambda=0.5,0.7,0.9 --output tuned.toml
  python -m kernelsearch.tune --index indexes/cran --topics topics.tsv --qrels qrels.txt --samples 100 \\
      --try k1=0.4..2.5 --try b=0.1..0.9 --output bm25.toml
  python -m kernelsearch.search --config tuned.toml --topics topics.tsv --output runs/tuned.txt"""

#: Options of the short help.
COMMON = ("index", "topics", "qrels", "rerank", "try", "measure", "samples", "output", "processes")
#: Options that tune takes from the top level of a config file.
FROM_CONFIG = (*SINGLE_QUERY, "topics", "topics_format", "topics_field")


@dataclass(frozen=True, kw_only=True)
class TuneSettings(QuerySettings):
    """Options of tune."""

    config: str | None = option(None, "TOML file with the pipeline to start from, as search takes; flags override it")
    topics: str | None = option(None, "topics to tune on: a file or irds:NAME")
    topics_format: str | None = option(None, "format of the topics; guessed if not given", choices=TOPIC_FORMATS)
    topics_field: str = option("title", "parts of a TREC topic to search with: title, description, narrative, joined with +")
    qrels: str | None = option(None, "relevance judgements of the topics: a file or irds:NAME")
    measure: str = option("AP", "measure to maximise, by its name in ir_measures or trec_eval")
    samples: int | None = option(None, "number of random settings to try instead of the whole grid", low=1)
    folds: int = option(5, "folds of topics for cross-validation", low=2)
    seed: int = option(0, "seed for the folds and the random settings", low=0)
    processes: int = option(os.cpu_count() or 1, "number of processes that try settings", low=1)
    output: str | None = option(None, "config file to write the best settings to; default: tuned-METHOD.toml")
    results: str | None = option(None, "file of results, from which a killed command continues; default: OUTPUT.results.jsonl")


def tune(
    index: Index | Source,
    topics: Topics,
    qrels: Judgements,
    rerank: keywords.Rerank = None,
    tried: Mapping[str, Any] | None = None,
    **options: Any,
) -> Tuned:
    """Tries settings of a pipeline on judged topics and chooses among them by cross-validation: `Index.tune`.

    `index` is an opened index, or what `kernelsearch.open` takes; `topics` and `qrels` may also be irds:NAME. The other
    parameters are those of `Index.tune`.
    """
    opened = index if isinstance(index, Index) else Index(index)
    return opened.tune(topics_from(topics), qrels_from(qrels), rerank, tried, **options)


def main(argv: list[str]) -> None:
    """Parses the flags, tries the settings, prints the outcome and writes the best setting."""
    parser = make_parser("tune", "Finds good settings by cross-validation over topics.", EXAMPLES, TuneSettings.flags, COMMON)
    parser.add_argument(
        "--try",
        dest="tried",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="parameter and values to try, such as klsa.z=1,5,10; default: a small grid of the method",
    )
    arguments, _ = parse(parser, argv, FROM_CONFIG)
    settings = read_flags(TuneSettings, arguments)
    require(parser, settings, "index", "topics", "qrels")
    output = settings.output or f"tuned-{'-'.join(arguments.rerank) or 'first-stage'}.toml"
    check_output("output", output, (settings.topics, settings.qrels))
    check_output("results", settings.results)
    spec, tried = read_pipeline(arguments), _read_tried(arguments.tried)
    if not tried:
        tried = default_grid(spec.names)
        console.notice(f"tried: {' '.join(f'--try {name}={values}' for name, values in tried.items())}")
    index = open_index(settings, console.progress, language=settings.language)
    tuned = index.tune(
        load_topics(str(settings.topics), settings.topics_format, settings.topics_field),
        load_qrels(str(settings.qrels)),
        spec,
        tried,
        measure=settings.measure,
        samples=settings.samples,
        folds=settings.folds,
        seed=settings.seed,
        processes=settings.processes,
        output=output,
        results=settings.results,
    )
    console.show(repr(tuned))
    console.notice(
        f"(its mean over the topics that it was chosen on, {tuned.choice.best_mean:.4f}, is too high: report the held-out mean)"
    )
    if tuned.held_out < tuned.untuned.mean():
        console.notice("on topics that it was not chosen on, a tuned setting is worse than the given one: keep the given one")
    console.notice(f"{output}: written; python -m kernelsearch.search --config {output} takes it")


def _read_tried(texts: list[str]) -> dict[str, str]:
    """{parameter: values} of the `texts` of --try; raises OptionError for a text that is not NAME=VALUES, or repeats a name."""
    tried: dict[str, str] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if not values:
            raise OptionError(f"{text!r} is not NAME=VALUES, such as klsa.z=1,5,10 or b=0.1..0.9", option=Flag("try"))
        if name in tried:
            raise OptionError("given twice", option=Flag("try", value=name))
        tried[name] = values
    return tried


sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    console.run(main)
