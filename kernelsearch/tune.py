"""`python -m kernelsearch.tune`: finds good settings by k-fold cross-validation over topics."""

from __future__ import annotations

from dataclasses import replace

from kernelsearch.cli import console
from kernelsearch.cli.flags import read_flags, require
from kernelsearch.cli.pipelines import make_parser, parse, read_pipeline
from kernelsearch.cli.tuning import TuneSettings, outcome_text, tune_pipeline, write_best
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
FROM_CONFIG = ("index", "topics", "topics_format", "topics_field", "language", "java_heap")


def main(argv: list[str]) -> None:
    """Parses the flags, tries the settings, prints the outcome and writes the best setting."""
    parser = make_parser("tune", "Finds good settings by cross-validation over topics.", EXAMPLES, TuneSettings, COMMON)
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
    if not arguments.tried:
        arguments.tried = default_grid(arguments.rerank)
        console.notice(f"tried: {' '.join(f'--try {text}' for text in arguments.tried)}")
    tuned, pipeline = tune_pipeline(settings, read_pipeline(arguments), arguments.tried, progress=console.progress)
    console.show(outcome_text(tuned))
    console.notice(
        f"(its mean over the topics that it was chosen on is {tuned.choice.best_mean:.4f}, which is too good to be reported)"
    )
    write_best(settings, tuned, pipeline)
    console.notice(f"{settings.output}: written; python -m kernelsearch.search --config {settings.output} takes it")


if __name__ == "__main__":
    console.run(main)
