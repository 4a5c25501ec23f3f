"""Whether shards can be one collection: those that were indexed differently would give scores that mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import IndexProblem
from kernelsearch.lucene import jvm
from kernelsearch.lucene.shards import IndexRecord, index_record
from kernelsearch.lucene.versions import has_term_vectors

#: The analyser's language where nothing says another one: Anserini's default.
ENGLISH = "en"


def common_language(paths: Sequence[Path]) -> str:
    """The language that shards were built with, where we built them; Anserini's default otherwise."""
    languages = [record.language if (record := index_record(path)) else ENGLISH for path in paths]
    for (path, language), (other, another) in pairwise(zip(paths, languages, strict=True)):
        if language != another:
            raise IndexProblem(f"{path} and {other}: can't be one collection (analysers: {language} and {another})")
    return languages[0]


def refuse_differences(paths: Sequence[Path], readers: Sequence[Any]) -> None:
    """Names the first two neighbours that differ in the Lucene that created them or in how a field is indexed."""
    described = [
        _Indexed(jvm.bridge().creator(jvm.path_of(path)), index_record(path), _fields(reader))
        for path, reader in zip(paths, readers, strict=True)
    ]
    for (path, one), (other, another) in pairwise(zip(paths, described, strict=True)):
        if said := _difference(one, another):
            raise IndexProblem(f"{path} and {other}: can't be one collection ({said})")


@dataclass(frozen=True)
class _Indexed:
    creator: int  #: Lucene's major release
    record: IndexRecord | None
    fields: dict[str, str]


def _difference(one: _Indexed, other: _Indexed) -> str | None:
    if one.creator != other.creator:
        return f"created by Lucene {one.creator} and Lucene {other.creator}"
    if one.record and other.record:
        # A shard that we built may lack a field that none of its documents has, so the records count.
        if one.record.fields != other.record.fields:
            return f"fields: {', '.join(one.record.fields) or 'none'} and {', '.join(other.record.fields) or 'none'}"
    elif one.fields.keys() != other.fields.keys():
        return f"fields: {', '.join(sorted(one.fields))} and {', '.join(sorted(other.fields))}"
    for name in sorted(one.fields.keys() & other.fields.keys()):
        if one.fields[name] != other.fields[name]:
            return f"field {name}: {one.fields[name]} and {other.fields[name]}"
    return None


def _fields(reader: Any) -> dict[str, str]:
    """What is indexed of each field, in words."""
    from jnius import autoclass, cast

    infos = autoclass("org.apache.lucene.index.FieldInfos")
    reader = cast("org.apache.lucene.index.IndexReader", reader)
    merged = infos.getMergedFieldInfos(reader)
    return {
        name: merged.fieldInfo(name).getIndexOptions().toString().lower().replace("_", " ")
        + (" with document vectors" if has_term_vectors(reader, name) else " without document vectors")
        for name in infos.getIndexedFields(reader).toArray()
    }
