"""`python -m kernelsearch.tune`, `kernelsearch.tune()`: finds good settings by k-fold cross-validation over topics."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelsearch.api import keywords
from kernelsearch.api.arguments import checked
from kernelsearch.api.index import Index
from kernelsearch.api.judged import Judgements, Topics
from kernelsearch.api.tune import Tuned
from kernelsearch.cli import console
from kernelsearch.cli.flags import SINGLE_QUERY, make_parser, parse, read_flags, read_pipeline, require
from kernelsearch.cli.tuning import TuneSettings, tune_pipeline, tune_with_keywords, write_best
from kernelsearch.cli.verbs import CallableModule
from kernelsearch.core.files import check_output
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


@checked
def tune(
    index: Index | Source,
    topics: Topics,
    qrels: Judgements,
    rerank: keywords.Rerank = None,
    tried: Mapping[str, Any] | None = None,
    *,
    measure: str = "AP",
    samples: int | None = None,
    folds: int = 5,
    seed: int = 0,
    processes: int = 1,
    output: str | Path | None = None,
    **options: Any,
) -> Tuned:
    """Tries settings of a pipeline on judged topics and chooses among them by cross-validation over the topics.

    Parameters
    ----------
    index : an opened index, or what `kernelsearch.open` takes
    topics : {qid: text}, a file of topics, irds:NAME or a data frame (qid, query)
    qrels : {qid: {docid: grade}}, a file of judgements, irds:NAME or a data frame (qid, docno, label)
    rerank : the methods, as in `Index.search`
    tried : {parameter: values}, such as {"k1": [0.9, 1.2], "klsa_z": [1, 5], "b": "0.1..0.9"}; a text is what the option --try
        takes, and ranges are drawn from with `samples`. Default: a small grid of the method
    measure : the measure to maximise
    samples : number of random settings to try instead of the whole grid
    folds, seed : number and seed of the folds
    processes : processes that try settings
    output : config file for the best setting, with results and fitted state beside it; a tuning that was killed continues from
        them. Required where parameters of training are tried
    options : options of the pipeline that stay fixed, as in `Index.search`

    Raises InputError where no topic is judged, OptionError for an unknown parameter or value.
    """
    opened = index if isinstance(index, Index) else Index(index)
    choices = {"measure": measure, "samples": samples, "folds": folds, "seed": seed, "processes": processes}
    return tune_with_keywords(opened, topics, qrels, keywords.split(rerank, options), tried, choices, output)


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
    if settings.output is None:
        settings = replace(settings, output=f"tuned-{'-'.join(arguments.rerank) or 'first-stage'}.toml")
    check_output("output", settings.output, (settings.topics, settings.qrels))
    check_output("results", settings.results)
    if not arguments.tried:
        arguments.tried = default_grid(arguments.rerank)
        console.notice(f"tried: {' '.join(f'--try {text}' for text in arguments.tried)}")
    tuned, pipeline = tune_pipeline(settings, read_pipeline(arguments), arguments.tried, progress=console.progress)
    console.show(repr(tuned))
    console.notice(
        f"(its mean over the topics that it was chosen on, {tuned.choice.best_mean:.4f}, is too high: report the held-out mean)"
    )
    if tuned.held_out < tuned.untuned.mean():
        console.notice("on topics that it was not chosen on, a tuned setting is worse than the given one: keep the given one")
    write_best(settings, tuned, pipeline)
    console.notice(f"{settings.output}: written; python -m kernelsearch.search --config {settings.output} takes it")


sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    console.run(main)
