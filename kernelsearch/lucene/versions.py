"""What differs between the Pyserini releases that we work with: where the jar is, and what its Java API calls things.

Tested with pyserini 1.6 (Anserini 1.7, Lucene 9.9) and pyserini 2.4 (Anserini 2.3, Lucene 10). The compiled helper keeps to
what both Lucenes share, so little is left to decide here.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import JavaError

#: Anserini's classes are compiled for this Java.
MINIMUM_JAVA = 21


def find_jar() -> Path:
    """Anserini's fat jar: KERNELSEARCH_JAR, or the one inside the installed pyserini (which is not imported)."""
    named = os.environ.get("KERNELSEARCH_JAR")
    if named:
        if not Path(named).is_file():
            raise JavaError(f"KERNELSEARCH_JAR: {named}: no such file")
        return Path(named)
    spec = importlib.util.find_spec("pyserini")
    folders = [Path(place) / "resources" / "jars" for place in (spec.submodule_search_locations or [])] if spec else []
    jars = sorted((jar for folder in folders for jar in folder.glob("anserini-*-fatjar.jar")), key=_release)
    if not jars:
        raise JavaError(
            "Anserini's jar was not found: pip install --no-deps pyserini (light), or kernelsearch[pyserini] (with torch)"
        )
    return jars[-1]


def _release(jar: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", jar.name))


def lucene_version() -> str:
    """Lucene's version in the running JVM, for example 9.9.1."""
    from jnius import autoclass

    # Lucene 9 and 10 both keep it as a static constant of this class.
    return autoclass("org.apache.lucene.util.Version").LATEST.toString()


def has_term_vectors(reader: Any, field: str) -> bool:
    """Whether any segment stores term vectors ("document vectors" in Anserini's words) of a field."""
    from jnius import autoclass, cast

    merged = autoclass("org.apache.lucene.index.FieldInfos").getMergedFieldInfos(
        cast("org.apache.lucene.index.IndexReader", reader)
    )
    info = merged.fieldInfo(field)
    if info is None:
        return False
    # Lucene 10 renamed it, since vectors of numbers came to share the word.
    return bool(info.hasTermVectors() if hasattr(info, "hasTermVectors") else info.hasVectors())
