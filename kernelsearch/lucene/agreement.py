"""Whether shards can be one collection: scores of shards that were indexed differently are not comparable."""

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


def refuse_differences(paths: Sequence[Path], readers: Sequence[Any]) -> None:
    """Raises IndexProblem if two consecutive shards differ in the Lucene that created them or in how a field is indexed.

    `readers` are the IndexReaders (Java) of the indexes at `paths`.
    """
    shards = [
        _Indexed(jvm.bridge().creator(jvm.path_of(path)), index_record(path), _fields(reader))
        for path, reader in zip(paths, readers, strict=True)
    ]
    for (path, shard), (next_path, next_shard) in pairwise(zip(paths, shards, strict=True)):
        if difference := _difference(shard, next_shard):
            raise IndexProblem(f"{path} and {next_path}: can't be one collection ({difference})")


@dataclass(frozen=True)
class _Indexed:
    """How a shard was indexed."""

    creator: int  #: major release of the Lucene that created it
    record: IndexRecord | None
    fields: dict[str, str]  #: what is indexed of each field


def _difference(first: _Indexed, second: _Indexed) -> str | None:
    """The first difference between two shards, in words; None where there is none."""
    if first.creator != second.creator:
        return f"created by Lucene {first.creator} and Lucene {second.creator}"
    if first.record and second.record:
        # A shard may lack a field because none of its documents has it: compare what was configured.
        if first.record.fields != second.record.fields:
            return f"fields: {', '.join(first.record.fields) or 'none'} and {', '.join(second.record.fields) or 'none'}"
    elif first.fields.keys() != second.fields.keys():
        return f"fields: {', '.join(sorted(first.fields))} and {', '.join(sorted(second.fields))}"
    for name in sorted(first.fields.keys() & second.fields.keys()):
        if first.fields[name] != second.fields[name]:
            return f"field {name}: {first.fields[name]} and {second.fields[name]}"
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
