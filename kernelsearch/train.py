"""`python -m kernelsearch.train`: fits what a method needs and saves it beside the index."""

from __future__ import annotations

from kernelsearch.cli import console
from kernelsearch.cli.training import make_parser, train

EXAMPLES = """examples:
  python -m kernelsearch.train --index indexes/cacm --rerank klsa --klsa.dims 300
  python -m kernelsearch.train --index indexes/cacm --rerank fusion --topics topics.tsv --qrels qrels.txt
  python -m kernelsearch.train --index indexes/cacm --rerank rbm25 --clicks sessions.jsonl
  python -m kernelsearch.train --index indexes/cacm --rerank mslm"""


def main(argv: list[str]) -> None:
    """Parses the flags and fits the method."""
    parser = make_parser("Fits a method to an index.", EXAMPLES)
    arguments = parser.parse_args(argv)
    if not hasattr(arguments, "index"):
        parser.error("--index is not given")
    console.notice(f"{train(arguments, progress=console.progress)}: fitted")


if __name__ == "__main__":
    console.run(main)
