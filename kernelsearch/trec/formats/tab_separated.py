"""TSV, as in MS MARCO."""

from __future__ import annotations

import csv
from collections.abc import Collection
from pathlib import Path

from kernelsearch.core.reading import TextFile
from kernelsearch.trec.delimited import HEADER_NAMES, read_table
from kernelsearch.trec.formats import ID_NAMES, Format, Records


def read_tsv(
    path: Path, encoding: str, id_names: Collection[str] = ID_NAMES, text_names: Collection[str] = HEADER_NAMES
) -> Records:
    """Rows of a TSV file, whose quotes are part of the text, as in MS MARCO; the parameters are those of `read_csv`.

    Below a header, a cell that is quoted as a whole, as spreadsheets write those with quotes or commas, is read without.
    """
    return read_table(TextFile(path, encoding), id_names, text_names, delimiter="\t", quoting=csv.QUOTE_NONE)


FORMAT = Format("tsv", read_tsv, suffixes=(".tsv", ".tab"), columns=True)
