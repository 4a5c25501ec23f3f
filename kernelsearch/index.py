"""`python -m kernelsearch.index`: from a collection to a Lucene index with its forward index, and changes of its documents."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.api.build import build_index, export_fields
from kernelsearch.api.updating import update_index
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.index_settings import COMMON, IndexSettings
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.reading import lines
from kernelsearch.engines import make_engine
from kernelsearch.lucene.index import CONTENTS

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
        settings.check_update()
        _update(settings, Path(str(settings.index)))
    elif settings.input is None:
        settings.check_export()
        fields = (CONTENTS, *(settings.fields or ()))
        with make_engine(settings) as engine:
            export_fields(settings.index, fields, limit, engine=engine, progress=console.progress)
        name = settings.index if isinstance(settings.index, str) else " + ".join(settings.index)
        console.notice(f"{name}: forward index of {', '.join(fields)}")
    elif isinstance(settings.index, tuple):
        raise OptionError(f"--index: one folder is made at a time, {len(settings.index)} are named")
    else:
        read = settings.reader(settings.input)
        with make_engine(settings) as engine:
            built = build_index(
                Path(settings.index), read, settings, source=settings.input, engine=engine, progress=console.progress,
                only_build=True,
            )  # fmt: skip
        console.notice(f"{settings.index}: {built}")


def _update(settings: IndexSettings, folder: Path) -> None:
    """Adds and deletes documents of the index `folder`."""
    updated = update_index(
        folder,
        settings.reader(settings.append) if settings.append is not None else None,
        _read_ids(settings.delete) if settings.delete is not None else (),
        source=settings.append or "",
        deleting=settings.delete or "",
        threads=settings.threads,
        memory_limit=settings.memory_limit,
        progress=console.progress,
    )
    console.notice(f"{folder}: {updated}")


def _read_ids(path: str) -> list[str]:
    if not Path(path).exists():
        raise InputError(f"--delete: {path}: no such file; it names a file of document ids, one per line")
    ids = [line.strip() for _, line in lines(path) if line.strip()]
    if not ids:
        raise InputError(f"{path}: no document ids in it")
    return ids


if __name__ == "__main__":
    console.run(main)
