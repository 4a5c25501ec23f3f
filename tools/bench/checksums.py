"""What verifying files costs: opening an index and the first search, with and without checksums, and a full verification.

    python -m tools.bench.checksums --index indexes/large --query "dripping tap" [--repeat 5]

Each measurement is a new process; the fastest of `--repeat` counts. `--rerank` is the method of the search. The time inside the
verification is measured in the same process as well: a busy machine changes that share less than the difference of two runs.
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
inside = [0.0]
def timed(function):
    def call(*arguments, **keywords):
        begin = time.perf_counter()
        try:
            return function(*arguments, **keywords)
        finally:
            inside[0] += time.perf_counter() - begin
    return call
for name in ("is_unchanged", "refuse_changed", "note_verified"):
    setattr(checksums, name, timed(getattr(checksums, name)))
import kernelsearch
start = time.perf_counter()
kernelsearch.open(sys.argv[1]).search(sys.argv[2], rerank=sys.argv[3] or None)
print(time.perf_counter() - start, inside[0])
"""


def seconds(index: str, query: str, rerank: str, mode: str) -> tuple[float, float]:
    """Seconds of opening `index` and the first search in a new process, and those inside the verification.

    `query` is the text to search for, `rerank` the method (empty for none). `mode`: off (nothing is verified), on (unchanged
    files are recognised) or full (all files are read).
    """
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, index, query, rerank, mode], capture_output=True, text=True, check=True
    )
    total, inside = map(float, done.stdout.split())
    return total, inside


def main() -> None:
    """Prints the fastest times with and without verification."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--query", required=True, help="the text to search for")
    parser.add_argument("--rerank", default="pert", help="method of the search (%(default)s)")
    parser.add_argument("--repeat", type=int, default=5, help="processes per measurement; the fastest counts (%(default)s)")
    arguments = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {"off": [], "on": [], "full": []}
    for _ in range(arguments.repeat):
        for mode, values in times.items():  # in turn, so that a busy machine slows all of them
            values.append(seconds(arguments.index, arguments.query, arguments.rerank, mode))
            time.sleep(0.2)
    best = {mode: min(values) for mode, values in times.items()}
    print(f"without checksums        {best['off'][0]:.3f} s")
    for mode, name in (("on", "files unchanged          "), ("full", "files changed (all read) ")):
        total, inside = best[mode]
        ratio, share = total / best["off"][0] - 1, inside / total
        print(f"{name}{total:.3f} s  ({ratio:+.1%}), of which verification {inside * 1000:.1f} ms ({share:.1%})")


if __name__ == "__main__":
    main()
