"""`python -m kernelsearch.train`: fits what a method needs and saves it beside the index."""

from __future__ import annotations

from kernelsearch.cli import console
from kernelsearch.cli.training import make_parser, train
from kernelsearch.core.tables import text_table

EXAMPLES = """examples:
  python -m kernelsearch.train --index indexes/cacm --rerank klsa --klsa.dims 300
  python -m kernelsearch.train --index indexes/cacm --rerank fusion --topics topics.tsv --qrels qrels.txt
  python -m kernelsearch.train --index indexes/cacm --rerank rbm25 --clicks sessions.jsonl
  python -m kernelsearch.train --index indexes/cacm --rerank mslm
  python -m kernelsearch.train --ltr train.txt --ltr-test test.txt --rerank fusion --output models/mq2008"""


def main(argv: list[str]) -> None:
    """Parses the flags and fits the method."""
    parser = make_parser("Fits a method to an index.", EXAMPLES)
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "index") and not hasattr(arguments, "ltr"):
        parser.error("--index is not given")
    fitted = train(arguments, progress=console.progress)
    if fitted.measures:
        row = (arguments.ltr_test, *(f"{value:.4f}" for value in fitted.measures.values()))
        console.show(text_table(("file", *fitted.measures), [row]))
    console.notice(f"{fitted.path}: fitted")


if __name__ == "__main__":
    console.run(main)
