"""Makes the bundled click log from the bundled collection: the same seed gives the same bytes.

python -m tools.data.demo_clicks            writes kernelsearch/demo/data/clicks.jsonl
python -m tools.data.demo_clicks --check    only compares it with what would be written
"""

from __future__ import annotations

import filecmp
import sys
import tempfile
from pathlib import Path

from kernelsearch import index as index_verb
from kernelsearch.clicks import __main__ as clicks
from tools import ROOT

DATA = ROOT / "kernelsearch" / "demo" / "data"


def make(output: Path) -> None:
    """Indexes the bundled collection in a temporary folder and simulates users on BM25's lists for its topics and variants."""
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder) / "index")
        index_verb.main(["--input", str(DATA / "corpus.jsonl"), "--index", index])
        files = [
            "--topics",
            str(DATA / "topics.tsv"),
            "--qrels",
            str(DATA / "qrels.txt"),
            "--variants",
            str(DATA / "variants.tsv"),
        ]
        clicks.main(["simulate", "--index", index, *files, "--impressions", "3000", "--seed", "1", "--output", str(output)])


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "clicks.jsonl"
            make(made)
            same = filecmp.cmp(made, DATA / "clicks.jsonl", shallow=False)
        print("the bundled log is what the seed makes" if same else "the bundled log differs: run tools/data/demo_clicks.py")
        return 0 if same else 1
    if arguments:
        print(__doc__)
        return 2
    make(DATA / "clicks.jsonl")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
