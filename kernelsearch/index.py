"""`python -m kernelsearch.index`: from a collection to a Lucene index with its forward index."""

from __future__ import annotations

import json
import os
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch import engines
from kernelsearch.cli import console
from kernelsearch.cli.inputs import load_documents
from kernelsearch.core import memory_limit as memory
from kernelsearch.core.errors import InputError, KernelSearchError, OptionError
from kernelsearch.core.files import write_folder
from kernelsearch.core.options import Option, add_flags, collect, resolve
from kernelsearch.engines import Engine
from kernelsearch.forward.strings import hashes
from kernelsearch.lucene.shards import OURS, Source, find_shards, is_index, write_record

OPTIONS = (
    Option("input", str, None, "a file, a folder, or irds:NAME"),
    Option("index", str, None, "the folder to make", repeat=True),
    Option(
        "shards", int, None, "split the collection into this many indexes, in order, in that folder; they count as one", low=1
    ),
    Option("format", str, None, "how to read the input; guessed if not given", choices=("jsonl", "beir", "trec", "csv", "tsv")),
    Option("encoding", str, "utf-8", "encoding of the input files"),
    Option(
        "fields", str, None, "further fields to index, such as title,url; default: title where documents have one", many=True
    ),
    Option(
        "language", str, "en", "language of the analyser, such as en, pt or zh; whitespace for text that is tokenised already"
    ),
    Option(
        "threads", int, 0, "indexing threads; 0: one for up to 50,000 documents (the same index every time), else all", low=0
    ),
    Option("positions", bool, True, "store token positions"),
    Option("docvectors", bool, True, "store document vectors (RM3 and Rocchio need them)"),
    Option("contents", bool, True, "store the text"),
    Option("raw", bool, True, "store the whole record, with all its fields"),
    Option("optimize", bool, True, "merge into one segment"),
    Option("forward", bool, True, "make the forward index too"),
    memory.OPTION,
    *engines.OPTIONS,
    Option("force", bool, False, "replace an index that exists"),
)

EXAMPLES = """examples:
  python -m kernelsearch.index --input corpus.jsonl --index indexes/mine
  python -m kernelsearch.index --input beir/scifact --index indexes/scifact
  python -m kernelsearch.index --input irds:vaswani --index indexes/vaswani
  python -m kernelsearch.index --input docs.csv --index indexes/docs --fields title,url --force
  python -m kernelsearch.index --input corpus.jsonl --index indexes/large --shards 4
  python -m kernelsearch.index --input corpus.jsonl --index indexes/large --shards 4 --engine dask
  python -m kernelsearch.index --index indexes/built-by-pyserini      (only adds the forward index)
  python -m kernelsearch.index --index indexes/a --index indexes/b    (the same for two indexes as one collection)

A JSONL document is {"id": ..., "contents": ..., "title": ...}; other fields are kept in the stored record."""

#: The staging file of a collection that is going to be split.
WHOLE = "000.jsonl"
#: Documents after which the next staging file takes over, so that all indexing threads have work.
_STRIDE = 1000
_SMALL = 50_000


def main(argv: list[str]) -> None:
    parser = console.Parser(
        prog="python -m kernelsearch.index", description="Builds a Lucene index and its forward index.", epilog=EXAMPLES
    )
    add_flags(parser, OPTIONS)
    settings = resolve(OPTIONS, collect(parser.parse_args(argv), OPTIONS))
    if settings["index"] is None:
        parser.error("--index: the folder to make is not given")
    limit = settings["memory_limit"] = memory.MemoryLimit.parse(settings["memory_limit"])
    if limit is not None:
        limit.bound_java()
    if settings["input"] is None:
        if settings["shards"]:
            raise OptionError("--shards: only a new index can be split; --input names its documents")
        add_forward(settings)
    elif isinstance(settings["index"], tuple):
        raise OptionError(f"--index: one folder is made at a time, {len(settings['index'])} are named")
    else:
        build(settings)


def build(settings: dict[str, Any]) -> None:
    """Builds everything aside and gives it its name at the end."""
    index = Path(settings["index"])
    if settings["engine"] != "local" and not settings["shards"]:
        raise OptionError("--engine: what others can build are shards; --shards says how many")
    if index.exists() and not settings["force"]:
        raise InputError(f"{index}: exists already; --force replaces it")
    if index.exists() and not index.is_dir():
        raise InputError(f"{index}: is a file, a folder was expected")
    if index.exists() and any(index.iterdir()) and not is_index(index):
        raise InputError(f"{index}: holds something that isn't an index; --force replaces indexes only")
    with (
        engines.make_engine(settings) as engine,
        write_folder(index, replace=True) as folder,
        tempfile.TemporaryDirectory(dir=folder.parent, prefix=".staged.") as stage,
    ):
        try:
            said = _build(settings, engine, folder, Path(stage))
        except KernelSearchError as problem:
            # People know the index by the name that they gave it, not by that of the folder it grows in.
            raise type(problem)(str(problem).replace(str(folder), str(index))) from None
    console.notice(f"{index}: {said}")


def _build(settings: dict[str, Any], engine: Engine, folder: Path, stage: Path) -> str:
    """Stages, indexes and exports into `folder`; says what came of it."""
    staged = _stage(settings, stage)
    fields = settings["fields"] if settings["fields"] is not None else (("title",) if staged.titles else ())
    if settings["shards"]:
        indexed, empty = _build_shards(settings, fields, staged, engine, folder, stage)
    else:
        indexed, empty = _build_index(settings, fields, folder, stage, staged.count, staged.threads)
    if settings["forward"]:
        _export(folder, ("contents", *fields), settings["memory_limit"], engine, folder / OURS / "forward")
    said = f"{indexed} documents" + (f" in {settings['shards']} shards" if settings["shards"] else "")
    return said + (f", fields {', '.join(fields)}" if fields else "") + (f"; {empty} without text left out" if empty else "")


def _build_index(
    settings: dict[str, Any], fields: tuple[str, ...], folder: Path, stage: Path, count: int, threads: int
) -> tuple[int, int]:
    """Indexes staged documents; returns how many were indexed and how many had no text."""
    from kernelsearch.lucene.build import build_index

    return build_index(
        stage,
        folder,
        total=count,
        fields=fields,
        language=settings["language"],
        threads=threads,
        positions=settings["positions"],
        vectors=settings["docvectors"],
        contents=settings["contents"],
        raw=settings["raw"],
        optimize=settings["optimize"],
    )


@dataclass(frozen=True)
class _Shard:
    """A shard that is going to be built: its documents, where it grows, and its later name. Small enough to travel."""

    documents: Path
    built: Path
    name: Path
    count: int
    threads: int


def _build_shards(
    settings: dict[str, Any], fields: tuple[str, ...], staged: _Staged, engine: Engine, folder: Path, stage: Path
) -> tuple[int, int]:
    """One index a shard, each of consecutive documents; sizes differ by one at most."""
    shards = settings["shards"]
    if staged.count < shards:
        raise InputError(f"--shards: {shards}, but {settings['input']} has {staged.count} documents only")
    # A worker of a cluster has one core a task.
    threads = _threads(settings, staged.count // shards) if engine.name == "local" else settings["threads"] or 1
    work = list(_split(staged.count, shards, threads, folder, stage.absolute()))
    done = []
    with console.progress(total=shards, label="shards", unit="shard") as bar:
        for shard, counted in zip(work, engine.map(partial(_build_shard, settings, fields), work, label="index"), strict=True):
            os.replace(shard.built, shard.name)
            done.append(counted)
            bar.update()
    write_record(folder, [shard.name.name for shard in work])
    return sum(one for one, _ in done), sum(empty for _, empty in done)


def _split(count: int, shards: int, threads: int, folder: Path, stage: Path) -> Iterator[_Shard]:
    """Cuts the staged documents into those of each shard, in as many files as there are threads."""
    with open(stage / WHOLE, encoding="utf-8", newline="\n") as lines:
        for number in range(shards):
            name = f"shard-{number:0{len(str(shards - 1))}d}"
            size = count * (number + 1) // shards - count * number // shards
            shard = _Shard(stage / name, stage / "built" / name, folder / name, size, threads)
            shard.documents.mkdir()
            with ExitStack() as stack:
                places = [shard.documents / f"{n:03d}.jsonl" for n in range(threads)]
                files = [stack.enter_context(open(place, "w", encoding="utf-8")) for place in places]
                for place, line in enumerate(islice(lines, size)):
                    files[place // _STRIDE % threads].write(line)
            yield shard
    (stage / WHOLE).unlink()


def _build_shard(settings: dict[str, Any], fields: tuple[str, ...], shard: _Shard) -> tuple[int, int]:
    """Indexes one shard, in any process: an attempt whose process dies leaves nothing under the shard's name."""
    if settings["memory_limit"] is not None:
        settings["memory_limit"].bound_java()
    with write_folder(shard.built, replace=True) as attempt:
        try:
            return _build_index(settings, fields, attempt, shard.documents, shard.count, shard.threads)
        except KernelSearchError as problem:
            raise type(problem)(str(problem).replace(str(attempt), str(shard.name))) from None


def add_forward(settings: dict[str, Any]) -> None:
    """Adds the forward index to an index that exists, whoever built it."""
    index = settings["index"]
    if settings["engine"] != "local" and len(find_shards(index).paths) == 1:
        raise OptionError(f"--engine: {index} is one index, and exported in one piece; others can take shards only")
    with engines.make_engine(settings) as engine:
        made = _export(index, ("contents", *(settings["fields"] or ())), settings["memory_limit"], engine)
    named = index if isinstance(index, str) else " + ".join(index)
    console.notice(f"{named}: forward index of {', '.join(made)}")


def _export(
    index: Source, fields: tuple[str, ...], limit: memory.MemoryLimit | None, engine: Engine, place: Path | None = None
) -> list[str]:
    """Writes forward indexes into `place`, by default where an opened index looks for them."""
    from kernelsearch.lucene.export import EXPORT_BLOCK, export, export_by_shards
    from kernelsearch.lucene.index import LuceneIndex

    lucene = LuceneIndex(index)
    block = EXPORT_BLOCK if limit is None else limit.export_block
    try:
        for field in fields:
            path = place / field if place else None
            if len(lucene.shards.paths) > 1:
                each, heap = partial(engine.map, label="export"), limit.java_heap if limit else None
                export_by_shards(lucene, field, each=each, path=path, block_bytes=block, heap=heap)
            else:
                export(lucene, field, path=path, block_bytes=block)
        return list(fields)
    finally:
        lucene.close()


@dataclass
class _Staged:
    count: int = 0
    titles: bool = False
    threads: int = 1


def _threads(settings: dict[str, Any], count: int) -> int:
    """A small collection is indexed by one thread, unless more are asked for: then the index is the same every time."""
    return (settings["threads"] or os.cpu_count() or 1) if count > _SMALL or settings["threads"] else 1


def _stage(settings: dict[str, Any], folder: Path) -> _Staged:
    """Checks every document and writes it in the form that Anserini reads; for shards, all into one file."""
    staged = _Staged()
    fields = settings["fields"] or ()
    threads = 1 if settings["shards"] else settings["threads"] or os.cpu_count() or 1
    keys = array("Q")
    with ExitStack() as stack:
        names = [folder / f"{number:03d}.jsonl" for number in range(threads)]
        files = [stack.enter_context(open(name, "w", encoding="utf-8")) for name in names]
        with console.progress(label="reading", unit="doc") as bar:
            for place, document in load_documents(settings["input"], settings["format"], settings["encoding"]):
                for name in fields:
                    value = document.get(name)
                    if value is not None and not isinstance(value, str):
                        document[name] = " ".join(map(str, value)) if isinstance(value, list) else str(value)
                # The documents of a small collection go into one file, for its one thread.
                spread = threads if staged.count >= _SMALL or settings["threads"] else 1
                stream = files[staged.count // _STRIDE % spread]
                try:
                    stream.write(json.dumps(document, ensure_ascii=False) + "\n")
                except UnicodeEncodeError:
                    raise InputError(f"{place}: text with a lone surrogate, which is not valid Unicode") from None
                keys.append(int(hashes([document["id"].encode("utf-8")])[0]))
                staged.count += 1
                staged.titles = staged.titles or bool(document.get("title"))
                bar.update()
    staged.threads = _threads(settings, staged.count)
    _refuse_duplicates(keys, settings)
    for file in folder.glob("*.jsonl"):
        if not file.stat().st_size:
            file.unlink()
    return staged


def _refuse_duplicates(keys: array[int], settings: dict[str, Any]) -> None:
    """Names the first docid that appears twice. Only hashes are kept while reading; the second reading happens on suspicion."""
    values, counts = np.unique(np.frombuffer(keys, dtype=np.uint64), return_counts=True)
    suspects = set(values[counts > 1].tolist())
    if not suspects:
        return
    seen: dict[str, str] = {}
    for place, docid in _docids(settings):
        if int(hashes([docid.encode("utf-8")])[0]) in suspects:
            if docid in seen:
                raise InputError(f"{place}: document id {docid!r} appears twice (first at {seen[docid]})")
            seen[docid] = place


def _docids(settings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for place, document in load_documents(settings["input"], settings["format"], settings["encoding"]):
        yield place, document["id"]


if __name__ == "__main__":
    console.run(main)
