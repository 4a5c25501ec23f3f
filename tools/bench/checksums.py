"""What verifying files costs: opening an index and the first search, with and without checksums, and a full verification.

    python -m tools.bench.checksums --index indexes/large --query "dripping tap" [--repeat 5]

Each measurement is a new process; the fastest of `--repeat` counts. `--rerank` is the method of the search.
"""

import argparse
import subprocess
import sys
import time

MEASURE = """
import sys, time
from kernelsearch.core import checksums
if sys.argv[4] == "off":
    checksums.is_unchanged = lambda *arguments, **keywords: True
    checksums.refuse_changed = lambda *arguments, **keywords: None
elif sys.argv[4] == "full":
    checksums.is_unchanged = lambda *arguments, **keywords: False
import kernelsearch
start = time.perf_counter()
kernelsearch.open(sys.argv[1]).search(sys.argv[2], rerank=sys.argv[3] or None)
print(time.perf_counter() - start)
"""


def seconds(index: str, query: str, rerank: str, mode: str) -> float:
    """Seconds of opening and the first search in a new process; `mode`: off, on or full."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, index, query, rerank, mode], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--rerank", default="pert")
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {"off": [], "on": [], "full": []}
    for _ in range(arguments.repeat):
        for mode, values in times.items():  # in turn, so that a busy machine slows all of them
            values.append(seconds(arguments.index, arguments.query, arguments.rerank, mode))
            time.sleep(0.2)
    best = {mode: min(values) for mode, values in times.items()}
    print(f"without checksums        {best['off']:.3f} s")
    print(f"files unchanged          {best['on']:.3f} s  ({best['on'] / best['off'] - 1:+.1%})")
    print(f"files changed (all read) {best['full']:.3f} s  ({best['full'] / best['off'] - 1:+.1%})")


if __name__ == "__main__":
    main()
