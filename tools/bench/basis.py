"""Whether a basis fitted in parts spans the space of the one fitted in one piece, in the precision that users get.

    python -m tools.bench.basis --index INDEX [--dims 300] [--parts 8]

Prints the largest principal angle between the leading dimensions of both, for several numbers of them, and how much of the
spectrum is behind: where neighbouring singular values are all but equal, directions may trade places at a cut through them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kernelsearch.api.index import Index
from kernelsearch.core.execution import LocalEngine
from kernelsearch.core.tables import text_table
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.rerankers.klsa.basis import fit_basis
from kernelsearch.rerankers.klsa.reranker import LatentBasis


def main() -> None:
    """Fits both bases and prints their times, residuals and principal angles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--dims", type=int, default=300, help="dimensions")
    parser.add_argument("--parts", type=int, default=8, help="parts that the other basis is fitted in")
    parser.add_argument(
        "--leading", type=int, nargs="+", default=[50, 100, 150, 200, 250], help="numbers of leading dimensions to compare"
    )
    arguments = parser.parse_args()
    forward = Index(arguments.index).forward
    with tempfile.TemporaryDirectory() as scratch:
        bases = []
        for parts in (1, arguments.parts):
            start = time.process_time()
            basis = fit_basis(
                Path(scratch) / str(parts),
                forward,
                BM25(k1=2.0, b=0.75),  # klsa's own
                dims=arguments.dims,
                engine=LocalEngine(),
                parts=parts,
            )
            bases.append(basis)
            residual = basis.meta["extra"]["residual"]
            print(
                f"{parts} parts: {time.process_time() - start:.0f} CPU s, largest relative residual {residual:.1e}", flush=True
            )
        left, right = bases
        rows = [(n, f"{angle(left, right, n):.1e}", f"{gap(left, n):.1e}") for n in arguments.leading if n <= arguments.dims]
    print(f"{len(forward):,} documents, {len(forward.terms):,} terms, {forward.statistics.postings:,} postings")
    print(text_table(("leading", "largest angle", "gap behind"), rows))


def angle(left: LatentBasis, right: LatentBasis, leading: int) -> float:
    """The largest principal angle between the first `leading` dimensions of the bases `left` and `right`, in radians.

    From the sine: an angle of 1e-4 has a cosine that single precision can't tell from 1.
    """
    first, second = (np.linalg.qr(np.asarray(basis.rows[:, :leading], dtype=np.float64))[0] for basis in (left, right))
    return float(np.arcsin(min(1.0, float(np.linalg.norm(second - first @ (first.T @ second), 2)))))


def gap(basis: LatentBasis, leading: int) -> float:
    """The gap behind the first `leading` singular values of `basis`: how much smaller the next one is, relatively.

    NaN where there is no next one.
    """
    values = np.asarray(basis.values)
    return float(1 - values[leading] / values[leading - 1]) if leading < len(values) else float("nan")


if __name__ == "__main__":
    main()
