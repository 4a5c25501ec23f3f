"""Simulates the bundled click log on the bundled collection: the same seed gives the same bytes.

`python -m tools.data.demo_clicks` writes kernelsearch/demo/data/clicks.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from kernelsearch.clicks.models import PositionBased
from kernelsearch.clicks.records import write_log
from kernelsearch.clicks.simulate import needs_from_search, simulate
from tools import ROOT
from tools.data.datasets import open_index

DATA = ROOT / "kernelsearch" / "demo" / "data"
IMPRESSIONS, DEPTH = 3000, 10


def make(output: Path) -> None:
    """Writes the click log of users that are simulated on BM25's lists for the bundled topics and their variants to `output`.

    The bundled collection is indexed in a temporary folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = open_index(Path(folder) / "index", DATA / "corpus.jsonl")
        docids = index.forward.docids

        def search(texts: list[str]) -> list[list[str]]:
            return [docids.take(result.docs) for result in index.lucene.search(index.lucene.queries(texts), DEPTH)]

        needs = needs_from_search(search, DATA / "topics.tsv", DATA / "qrels.txt", DATA / "variants.tsv")
        others = sorted(docids.take(index.forward.live_docs))
        sessions = simulate(needs, IMPRESSIONS, model=PositionBased(), seed=1, depth=DEPTH, others=others)
        write_log(sessions, output)


def main() -> None:
    """Writes the bundled log."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    make(DATA / "clicks.jsonl")


if __name__ == "__main__":
    main()
