"""Adding vectors of documents to an index: from a file or an array, or made by an encoder from the stored texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelsearch.api.index_files import IndexFiles
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.encoders import Encoder
from kernelsearch.neighbours import KINDS
from kernelsearch.vectors import store
from kernelsearch.vectors.encoding import encode_documents
from kernelsearch.vectors.readers import VectorReader


@dataclass(frozen=True, kw_only=True)
class AddVectorsSettings(Settings):
    """How vectors are encoded and stored."""

    field: str = option("contents", "stored field whose text is encoded")
    dtype: str = option("float16", "type of the stored values", choices=("float16", "float32"))
    normalise: bool = option(False, "bring vectors to unit length, so that inner products are cosines")
    max_tokens: int | None = option(
        None,
        "tokens of a document that the encoder of the vectors has read, 0: whole texts; default: the encoder's max-length, "
        f"or {store.MAX_TOKENS}. Vectors of documents that are longer on average get a lower weight in auto",
        low=0,
    )
    neighbours: str = option("auto", "kind of FAISS index for retrieval; auto: by the number of vectors", choices=KINDS)
    memory_limit: str | None = option(None, "memory limit of the build, such as 4G; larger work is split into parts")


def add_vectors(
    index: IndexFiles,
    name: str,
    source: VectorReader | None,
    encoder: Encoder | None,
    settings: AddVectorsSettings,
    progress: Progress = silent,
) -> store.Stored:
    """Stores vectors of the documents of `index` under `name`, replacing older ones of that name once all are stored.

    Parameters
    ----------
    source : the vectors; None: `encoder` makes them from the documents' texts
    encoder : the encoder of queries, too; None: query vectors come from files
    settings : how vectors are encoded and stored
    progress : gets the number of vectors that are stored

    Raises InputError for vectors that can't be used, OptionError for a name or an option that is not allowed.
    """
    folder = store.place(index.artefacts, name)
    limit = MemoryLimit.parse(settings.memory_limit)
    if source is not None:
        return store.import_vectors(
            folder,
            index.forward,
            source,
            dtype=settings.dtype,
            normalise=settings.normalise,
            encoder=encoder.declaration() if encoder is not None else None,
            max_tokens=settings.max_tokens,
            neighbours=settings.neighbours,
            limit=limit,
            progress=progress,
        )
    if encoder is None:
        raise OptionError("vectors: neither vectors nor an encoder that makes them are given")
    if settings.max_tokens is not None and "max_length" in encoder.declaration():
        raise OptionError(
            f"{encoder.source}: its max-length says it already; set that in encoder.toml", option=Flag("max-tokens")
        )

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
        progress=progress,
    )
