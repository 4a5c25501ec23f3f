"""From measured costs (tools.bench.scale) to what larger collections take, on paper.

    python -m tools.bench.scale_plan FOLDER/scale.json

Every stage is scaled from the largest measured collection: by postings where it reads postings, by documents where it works on
latent rows, each with the measured growth exponent where that is above 1. docs/measurements/scale.md has the formulas.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.tables import text_table
from tools.bench import scale


@dataclass(frozen=True)
class Collection:
    """The size of a collection: documents in all, distinct terms (`postings`) and indexed tokens per document."""

    name: str
    documents: float
    postings: float  #: distinct terms per document
    tokens: float  #: indexed tokens per document


#: Documents, and tokens of MS MARCO, as published; the rest are round assumptions that the page states.
COLLECTIONS = (
    Collection("MS MARCO passage", 8_841_823, 30, 352_316_036 / 8_841_823),
    Collection("ClueWeb22-B", 200e6, 250, 500),
    Collection("ten billion pages", 10e9, 250, 500),
)
BY_POSTINGS, BY_DOCUMENTS = ("index", "export", "basis"), ("faiss",)
#: A machine of the plan: cores, memory for features (of 64 GB), disk, hours that the building may take.
CORES, MEMORY, DISK, HOURS = 16, 48e9, 2e12, 24
SPACE = 1.5 * 300 + 32  #: vectors that the solver holds
HEAPS = 1 / 1.77


def main() -> None:
    """Prints one row per collection of the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="scale.json of tools.bench.scale")
    result = scale.read(parser.parse_args().results)
    rows = [row(result, collection) for collection in COLLECTIONS]
    header = ("collection", "postings", "terms", *(f"{stage} CPU h" for stage in (*BY_POSTINGS, *BY_DOCUMENTS)))
    print(text_table((*header, "disk TB", "features GB", "solver GB", "GB per product", "machines"), rows))


def row(result: dict[tuple[int, str], dict[str, Any]], collection: Collection) -> tuple[object, ...]:
    """The row of `collection`, scaled from the largest measured one; `result` has measured costs by size and stage."""
    size = max(documents for documents, stage in result if stage == "faiss")
    measured = {stage: result[size, stage] for stage in (*BY_POSTINGS, *BY_DOCUMENTS)}
    base = measured["export"]
    postings, documents = collection.documents * collection.postings, collection.documents
    terms = base["terms"] * (documents * collection.tokens / base["tokens"]) ** HEAPS
    more = {stage: postings / base["postings"] for stage in BY_POSTINGS} | {"faiss": documents / size}
    hours = {stage: measured[stage]["cpu"] / 3600 * more[stage] ** max(1.0, exponent(result, stage)) for stage in measured}
    latent = (1200 + measured["faiss"]["disk"] / size) * documents + 1200 * terms
    disk = (measured["index"]["disk"] + base["disk"]) * more["index"] + latent
    machines = max(sum(hours.values()) / (CORES * HOURS), 8 * postings / MEMORY, disk / DISK, 1)
    return (
        collection.name,
        f"{postings / 1e9:,.2f}G",
        f"{terms / 1e6:,.1f}M",
        *(f"{hours[stage]:,.1f}" for stage in measured),
        f"{disk / 1e12:,.2f}",
        f"{8 * postings / 1e9:,.0f}",
        f"{4 * SPACE * terms / 1e9:,.0f}",
        f"{64 * terms / 1e9:,.2f}",
        f"{math.ceil(machines):,}",
    )


def exponent(result: dict[tuple[int, str], dict[str, Any]], stage: str) -> float:
    """The slope of log CPU time over log documents of a `stage`; `result` has measured costs by size and stage."""
    sizes = sorted(documents for documents, name in result if name == stage)
    return float(np.polyfit(np.log(sizes), np.log([result[size, stage]["cpu"] for size in sizes]), 1)[0]) if sizes[1:] else 1.0


if __name__ == "__main__":
    main()
