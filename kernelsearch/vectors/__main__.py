"""`python -m kernelsearch.vectors`: vectors of an index's documents, imported from a file or made by an encoder."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.api.adding_vectors import AddVectorsSettings, add_vectors
from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.errors import InputError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.encoders import open_encoder
from kernelsearch.vectors import store
from kernelsearch.vectors.readers import open_vectors
from kernelsearch.vectors.truncation import read_shares


@dataclass(frozen=True, kw_only=True)
class VectorsSettings(Settings):
    """Options of vectors, beside those of `AddVectorsSettings`."""

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
    add_flags(parser, (*VectorsSettings.options[:-1], *AddVectorsSettings.options, *VectorsSettings.options[-1:]))
    arguments = parser.parse_args(argv)
    settings, adding = read_flags(VectorsSettings, arguments), read_flags(AddVectorsSettings, arguments)
    if settings.index is None:
        parser.error("--index is not given")
    limit = MemoryLimit.parse(adding.memory_limit)
    heap = settings.java_heap or (limit.java_heap if limit else None)
    index = Index(settings.index, java_heap=heap, progress=console.progress)
    if settings.input is None and settings.encoder is None:
        if settings.name is not None:
            parser.error("one of --input and --encoder is needed")
        _list(index)
        return
    if settings.name is None:
        parser.error("--name is not given: what the vectors are to be called")
    folder = store.place(index.artefacts, settings.name)  # a name that can't be is refused before the encoder is opened
    encoder = open_encoder(settings.encoder) if settings.encoder is not None else None
    source = open_vectors(settings.input, settings.ids) if settings.input is not None else None
    stored = add_vectors(index, settings.name, source, encoder, adding, console.progress)
    console.notice(f"{index.name}: {settings.name}: {stored}")
    documents = store.DocumentVectors(folder)
    share = read_shares(documents, index.forward.lengths).mean()
    if share < LONG:
        console.notice(
            f"{index.name}: {settings.name}: the encoder has read about {100 * share:.0f} % of the texts, "
            f"{documents.max_tokens} tokens of each (--max-tokens); auto gives the vectors less weight"
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
