"""Simulates the bundled click log on the bundled collection: the same seed gives the same bytes.

python -m tools.data.demo_clicks            writes kernelsearch/demo/data/clicks.jsonl
python -m tools.data.demo_clicks --check    only compares it with what would be written
"""

from __future__ import annotations

import argparse
import filecmp
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


def main() -> int:
    """Writes or compares the bundled log; returns 1 where it differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the bundled log with what would be written")
    if not parser.parse_args().check:
        make(DATA / "clicks.jsonl")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "clicks.jsonl"
        make(made)
        same = filecmp.cmp(made, DATA / "clicks.jsonl", shallow=False)
    print("the bundled log is what the seed gives" if same else "the bundled log differs: run python -m tools.data.demo_clicks")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
