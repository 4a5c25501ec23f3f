"""`python -m kernelsearch.index`: from a collection to a Lucene index with its forward index, and changes of its documents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsearch.api.build import BuildSettings, build_index, export_fields
from kernelsearch.api.staging import Reader
from kernelsearch.api.updating import update_index
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_documents
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import option
from kernelsearch.core.reading import lines
from kernelsearch.engines import EngineSettings, make_engine
from kernelsearch.lucene.index import CONTENTS
from kernelsearch.trec.documents import FORMATS, parse_columns


@dataclass(frozen=True, kw_only=True)
class IndexSettings(EngineSettings, BuildSettings):
    """Options of index."""

    input: str | None = option(None, "documents to index: a file, a folder, or irds:NAME")
    index: str | tuple[str, ...] | None = option(
        None, "folder of the index to build, or of one that exists; repeatable for the latter", repeat=True
    )
    append: str | None = option(
        None, "documents to add to the index, as --input takes them; a document replaces the one of the same id"
    )
    delete: str | None = option(None, "file with the ids of documents to delete from the index, one per line")
    format: str | None = option(None, "format of the input; guessed if not given", choices=FORMATS)
    encoding: str = option("utf-8", "encoding of the input files, such as windows-1252")
    columns: tuple[str, ...] = option(
        (), "columns or keys of the input that hold id, contents and title, such as id=number,contents=body,title=headline"
    )
    number_documents: bool = option(
        False, "number the documents 1, 2, ... in the order of the input, for documents without ids"
    )
    join_titles: bool = option(True, "join the title to the contents that are searched")
    skip_unreadable: bool = option(
        False, "leave out .txt, .md, .html and .pdf files of a folder that cannot be read, and name them"
    )


#: Options that belong to a build, by name: an index that is changed keeps them.
BUILD_ONLY = (
    *("input", "shards", "fields", "language", "positions", "docvectors", "contents", "raw", "optimize", "forward"),
    *("force", "engine", "scheduler", "workers"),
)

EXAMPLES = """examples:
  python -m kernelsearch.index --input corpus.jsonl --index indexes/mine
  python -m kernelsearch.index --input beir/scifact --index indexes/scifact
  python -m kernelsearch.index --input irds:vaswani --index indexes/vaswani
  python -m kernelsearch.index --input docs.csv --index indexes/docs --columns id=number,contents=body --force
  python -m kernelsearch.index --input manual/ --index indexes/manual       (a folder of .txt, .md, .html or .pdf files)
  python -m kernelsearch.index --input corpus.jsonl --index indexes/large --shards 4
  python -m kernelsearch.index --input corpus.jsonl --index indexes/large --shards 4 --engine dask
  python -m kernelsearch.index --index indexes/mine --append new.jsonl --delete ids.txt
  python -m kernelsearch.index --index indexes/built-by-pyserini      (only adds the forward index)
  python -m kernelsearch.index --index indexes/a --index indexes/b    (the same for two indexes as one collection)

A JSONL document is {"id": ..., "contents": ..., "title": ...}; other fields are stored in the record.
Queries search the contents; a title that is not in them is joined to them."""


#: Options of the short help.
COMMON = (
    *("input", "index", "append", "delete", "format", "columns", "number-documents", "encoding", "language", "fields"),
    *("no-join-titles", "shards", "memory-limit", "force"),
)


def main(argv: list[str]) -> None:
    """Builds an index, changes the documents of one that exists, or adds the forward index to it."""
    parser = console.Parser(
        prog="python -m kernelsearch.index",
        description="Builds a Lucene index and its forward index from documents, or adds and deletes documents.",
        epilog=EXAMPLES,
        common=COMMON,
    )
    add_flags(parser, IndexSettings.options)
    settings = read_flags(IndexSettings, parser.parse_args(argv))
    if settings.index is None:
        parser.error("--index: the folder to make is not given")
    limit = MemoryLimit.parse(settings.memory_limit)
    if settings.append is not None or settings.delete is not None:
        _update(settings)
    elif settings.input is None:
        if settings.shards:
            raise OptionError("--shards: only a new index can be split; --input names its documents")
        fields = (CONTENTS, *(settings.fields or ()))
        with make_engine(settings) as engine:
            export_fields(settings.index, fields, limit, engine=engine, progress=console.progress)
        name = settings.index if isinstance(settings.index, str) else " + ".join(settings.index)
        console.notice(f"{name}: forward index of {', '.join(fields)}")
    elif isinstance(settings.index, tuple):
        raise OptionError(f"--index: one folder is made at a time, {len(settings.index)} are named")
    else:
        read = _reader(settings, settings.input)
        with make_engine(settings) as engine:
            built = build_index(
                Path(settings.index), read, settings, source=settings.input, engine=engine, progress=console.progress
            )
        console.notice(f"{settings.index}: {built}")


def _reader(settings: IndexSettings, source: str) -> Reader:
    columns = parse_columns(settings.columns)
    return partial(
        load_documents,
        source,
        settings.format,
        settings.encoding,
        columns=columns,
        join_titles=settings.join_titles,
        skip_unreadable=settings.skip_unreadable,
        number_documents=settings.number_documents,
    )


def _update(settings: IndexSettings) -> None:
    """Adds and deletes documents of an index that exists."""
    flag = "--append" if settings.append is not None else "--delete"
    if not isinstance(settings.index, str):
        raise OptionError("--index: one index is changed at a time")
    if settings.number_documents:
        message = (
            f"has no effect with {flag}" if settings.append is None else "would replace the documents 1, 2, ... of the index"
        )
        raise OptionError(f"--number-documents: {message}; documents to add need ids of their own")
    defaults = IndexSettings().to_dict()
    for name in BUILD_ONLY:
        if settings.to_dict()[name] != defaults[name]:
            raise OptionError(f"--{name}: has no effect with {flag}; the index keeps the settings that it was built with")
    updated = update_index(
        Path(settings.index),
        _reader(settings, settings.append) if settings.append is not None else None,
        _read_ids(settings.delete) if settings.delete is not None else (),
        source=settings.append or "",
        deleting=settings.delete or "",
        threads=settings.threads,
        memory_limit=settings.memory_limit,
        progress=console.progress,
    )
    console.notice(f"{settings.index}: {updated}")


def _read_ids(path: str) -> list[str]:
    if not Path(path).exists():
        raise InputError(f"--delete: {path}: no such file; it names a file of document ids, one per line")
    ids = [line.strip() for _, line in lines(path) if line.strip()]
    if not ids:
        raise InputError(f"{path}: no document ids in it")
    return ids


if __name__ == "__main__":
    console.run(main)
