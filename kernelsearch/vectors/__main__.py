"""`python -m kernelsearch.vectors`: vectors of an index's documents, imported from a file or made by an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.encoders import Encoder, open_encoder
from kernelsearch.vectors import store
from kernelsearch.vectors.encoding import encode_documents
from kernelsearch.vectors.readers import open_vectors
from kernelsearch.vectors.truncation import read_shares


@dataclass(frozen=True, kw_only=True)
class VectorsSettings(Settings):
    """Options of vectors."""

    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    name: str | None = option(None, "name of the vectors, such as minilm; an index may have several")
    input: str | None = option(
        None, "file of vectors with document ids: .npz, .npy, JSONL, Parquet, or a FAISS folder of Pyserini's"
    )
    ids: str | None = option(None, "ids of a .npy file: a text file with one id per line")
    encoder: str | None = option(
        None,
        "encode the documents with this: a folder with an ONNX model, sentence-transformers:NAME or pyserini:NAME; "
        "with --input: encoder of the queries only",
    )
    field: str = option("contents", "stored field whose text is encoded")
    dtype: str = option("float16", "type of the stored values", choices=("float16", "float32"))
    normalise: bool = option(False, "bring vectors to unit length, so that inner products are cosines")
    max_tokens: int | None = option(
        None,
        "tokens of a document that the encoder of the vectors has read, 0: whole texts; default: the encoder's max-length, "
        f"or {store.MAX_TOKENS}. Vectors of documents that are longer on average get a lower weight in auto",
        low=0,
    )
    neighbours: str = option(
        "auto",
        "FAISS index for retrieval; auto goes by size",
        choices=("auto", "flat", "ivf", "ivf-fp16", "ivf-sq8", "hnsw"),
    )
    memory_limit: str | None = option(
        None, "bound the memory of building, such as 4G; what doesn't fit is done in smaller parts"
    )
    java_heap: str | None = option(None, "Java's heap, such as 4g")


#: The share of the texts below which an import says that the vectors have not seen the rest.
LONG = 0.7

EXAMPLES = """examples:
  python -m kernelsearch.vectors --index indexes/cran --name minilm --input minilm/corpus.npz
  python -m kernelsearch.vectors --index indexes/cran --name tct --input faiss-folder-of-pyserini
  python -m kernelsearch.vectors --index indexes/cran --name minilm --encoder models/all-MiniLM-L6-v2
  python -m kernelsearch.vectors --index indexes/cran                 (lists the vectors of the index)
  python -m kernelsearch.search --index indexes/cran --topics topics.tsv --output run.txt --rerank dense \\
    --dense.retrieve 1000 --vectors.queries minilm/topics.npz"""


def main(argv: list[str]) -> None:
    """Parses the flags `argv`, and imports, encodes or lists vectors."""
    parser = console.Parser(
        prog="python -m kernelsearch.vectors", description="Adds vectors of documents to an index.", epilog=EXAMPLES
    )
    add_flags(parser, VectorsSettings.options)
    settings = read_flags(VectorsSettings, parser.parse_args(argv))
    if settings.index is None:
        parser.error("--index is not given")
    limit = MemoryLimit.parse(settings.memory_limit)
    heap = settings.java_heap or (limit.java_heap if limit else None)
    index = Index(settings.index, java_heap=heap, progress=console.progress)
    if settings.input is None and settings.encoder is None:
        if settings.name is not None:
            parser.error("one of --input and --encoder is needed")
        _list(index)
        return
    if settings.name is None:
        parser.error("--name is not given: what the vectors are to be called")
    folder = store.place(index.artefacts, settings.name)
    encoder = open_encoder(settings.encoder) if settings.encoder is not None else None
    make = _import if settings.input is not None else _encode
    stored = make(index, folder, settings, encoder, limit)
    console.notice(f"{index.name}: {settings.name}: {stored}")
    documents = store.DocumentVectors(folder)
    share = read_shares(documents, index.forward.lengths).mean()
    if share < LONG:
        console.notice(
            f"{index.name}: {settings.name}: the encoder has read about {100 * share:.0f} % of the texts, "
            f"{documents.max_tokens} tokens of each (--max-tokens); auto gives the vectors less weight"
        )


def _import(
    index: Index, folder: Path, settings: VectorsSettings, encoder: Encoder | None, limit: MemoryLimit | None
) -> store.Stored:
    assert settings.input is not None
    return store.import_vectors(
        folder,
        index.forward,
        open_vectors(settings.input, settings.ids),
        dtype=settings.dtype,
        normalise=settings.normalise,
        encoder=encoder.declaration() if encoder is not None else None,
        max_tokens=settings.max_tokens,
        neighbours=settings.neighbours,
        limit=limit,
        progress=console.progress,
    )


def _encode(
    index: Index, folder: Path, settings: VectorsSettings, encoder: Encoder | None, limit: MemoryLimit | None
) -> store.Stored:
    assert encoder is not None
    if settings.max_tokens is not None and "max_length" in encoder.declaration():
        raise OptionError(f"--max-tokens: {encoder.source}: its max-length says it already; encoder.toml sets it")

    def texts(rows: Sequence[int]) -> Sequence[str | None]:
        return index.lucene.stored(rows, settings.field)

    return encode_documents(
        folder,
        index.forward,
        texts,
        encoder,
        field=settings.field,
        dtype=settings.dtype,
        normalise=settings.normalise,
        max_tokens=settings.max_tokens,
        neighbours=settings.neighbours,
        limit=limit,
        progress=console.progress,
    )


def _list(index: Index) -> None:
    """Prints the index's vectors as a table."""
    known = store.names(index.artefacts)
    if not known:
        raise InputError(f"{index.name}: has no vectors; --name and --input import some")
    rows = []
    for name in known:
        documents = store.DocumentVectors(store.place(index.artefacts, name))
        current = "yes" if documents.meta["fingerprint"] == index.fingerprint else "no, the index has changed"
        encoder = (documents.encoder or {}).get("source", "")
        count, dtype = int(documents.present.sum()), str(documents.matrix.dtype)
        read = f"{100 * read_shares(documents, index.forward.lengths).mean():.0f} %" if current == "yes" else ""
        rows.append((name, count, documents.dims, dtype, read, current, encoder))
    console.show(text_table(("name", "vectors", "dims", "type", "text read", "current", "encoder"), rows, align="<>><><<"))


if __name__ == "__main__":
    console.run(main)
