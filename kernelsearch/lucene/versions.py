"""What differs between the Lucene releases that kernelsearch supports.

Tested with pyserini 1.6 (Anserini 1.7, Lucene 9.9) and pyserini 2.4 (Anserini 2.3, Lucene 10). The bridge is compiled against
what both have in common.
"""

from __future__ import annotations

from typing import Any


def has_term_vectors(reader: Any, field: str) -> bool:
    """Returns whether a segment of `reader` (an IndexReader) stores term vectors (Anserini: document vectors) of a field."""
    from jnius import autoclass, cast

    merged = autoclass("org.apache.lucene.index.FieldInfos").getMergedFieldInfos(
        cast("org.apache.lucene.index.IndexReader", reader)
    )
    info = merged.fieldInfo(field)
    if info is None:
        return False
    # Lucene 10 renamed the method, to tell term vectors from dense vectors.
    return bool(info.hasTermVectors() if hasattr(info, "hasTermVectors") else info.hasVectors())
