"""The peak memory of exporting a forward index and of building FAISS under several memory limits.

    python -m tools.bench.memory --index INDEX --scratch FOLDER [--limits 1G 2G 4G]

INDEX has a fitted klsa basis. Each measurement is a process of its own, Java included. What counts is the process's own memory
(RssAnon); mapped files are in a column of their own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.core.tables import text_table
from tools.bench import scale

FAISS = """
import sys, numpy as np
from pathlib import Path
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.neighbours import Neighbours
built = Neighbours.build(np.load(sys.argv[1], mmap_mode="r"), limit=MemoryLimit.parse(sys.argv[2]))
built.save(Path(sys.argv[3]))
print(built.kind)
"""


def main() -> None:
    """Measures every limit and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, type=Path, help="the index to measure on")
    parser.add_argument("--scratch", required=True, type=Path, help="folder for indexes and results")
    parser.add_argument("--limits", nargs="+", default=["1G", "2G", "4G"], help="memory limits")
    arguments = parser.parse_args()
    rows_file = Index(arguments.index).artefacts / "klsa" / "rows.npy"
    rows = []
    for limit in arguments.limits:
        made = arguments.scratch / f"memory-{limit}"
        made.mkdir(parents=True)
        os.environ["KERNELSEARCH_ARTEFACTS"] = str(made)
        commands = {
            "export": ("-m", "kernelsearch.index", "--index", arguments.index, "--memory-limit", limit),
            "FAISS": ("-c", FAISS, rows_file, limit, made / "faiss"),
        }
        for stage, command in commands.items():
            result = scale.watched([sys.executable, *map(str, command)], arguments.scratch / "memory.log")
            kind = result["said"][-1] if stage == "FAISS" else ""
            sizes = (f"{result[key] / 2**30:.2f}" for key in ("own", "peak"))
            rows.append((limit, stage, kind, *sizes, f"{result['cpu']:.0f}"))
            print(rows[-1], flush=True)
        shutil.rmtree(made)
    print(text_table(("limit", "stage", "kind", "own GiB", "with mapped files", "CPU s"), rows, align="<<<>>>"))


if __name__ == "__main__":
    main()
