"""Documents in PyTerrier: an indexer, and the transformer that adds stored texts to results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import pandas as pd
import pyterrier as pt
from numpy.typing import NDArray

from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.python_documents import reader_of
from kernelsearch.core.errors import IndexProblem, InputError
from kernelsearch.core.reading import json_object
from kernelsearch.integrations.frames import TEXT, stored_fields
from kernelsearch.integrations.hits import IndexSource, open_index
from kernelsearch.integrations.pyterrier_base import IndexTransformer, format_options

if TYPE_CHECKING:
    from kernelsearch.api.index import Index


class Text(IndexTransformer):
    """Adds stored texts to results: `bm25 >> ks.Text(index) >> cross_encoder`.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher
    fields : columns to add: `text`, the contents, and keys of the records, such as `title`; "*" for all that the first document
        has. A document without a field gets an empty text
    verbose : accepted as by PyTerrier's own loaders, and not used
    """

    attributes_that_vary: ClassVar[tuple[str, ...]] = ("fields",)

    def __init__(self, index: IndexSource, fields: Sequence[str] | str | Literal["*"] = TEXT, *, verbose: bool = False) -> None:
        self.index = open_index(index)
        self.options = {}
        self.verbose = verbose
        stored = stored_fields(self.index)
        self.fields: tuple[str, ...] = stored if fields == "*" else (fields,) if isinstance(fields, str) else tuple(fields)
        if not self.fields or not stored or (TEXT not in stored and TEXT in self.fields):
            raise IndexProblem("stores no texts; index the collection again with them", path=self.index.name)

    def __repr__(self) -> str:
        return f"Text({self.index.name!r}, {list(self.fields)!r})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of results or documents and returns it with the fields as columns."""
        pt.validate.columns(inp, includes=["docno"], context=self)
        docnos = [str(docno) for docno in inp["docno"]]
        rows = self.index.forward.rows_of(docnos)
        if (rows < 0).any():
            unknown = np.flatnonzero(rows < 0)
            raise InputError(f"docno: {len(unknown)} documents are not in {self.index.name}, such as {docnos[unknown[0]]}")
        # A document in the lists of several queries is read once.
        documents, places = np.unique(rows, return_inverse=True)
        columns = self._read(documents)
        out = inp.reset_index(drop=True)
        return out.assign(**{name: pd.Series([values[place] for place in places], dtype=object) for name, values in columns})

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """Texts are read for the best k documents only."""
        return pt.RankCutoff(k) >> self

    def _read(self, documents: NDArray[np.int32]) -> list[tuple[str, list[str]]]:
        """Each field's values of documents, which are rows of the index."""
        contents = self.index.lucene.stored(documents, "contents")
        enough = self.fields == (TEXT,) and None not in contents
        records = [] if enough else [json_object(raw) for raw in self.index.lucene.stored(documents, "raw")]
        columns = []
        for name in self.fields:
            if name == TEXT:
                values = [text if text is not None else records[n].get("contents") for n, text in enumerate(contents)]
            else:
                values = [record.get(name) for record in records]
            columns.append((name, ["" if value is None else str(value) for value in values]))
        return columns


class Indexer(pt.Indexer):
    """Builds an index: `ks.Indexer("indexes/mine").index(documents)` returns it, opened.

    Parameters
    ----------
    path : the folder of the new index
    text_attrs : fields of a document that are joined to the text that is searched
    join_titles : put the title before the text, unless it is in it already
    options : those of `kernelsearch.index` (`force=True`, `fields=("title", "url")`, `language="pt"`)
    """

    def __init__(
        self, path: str | Path, *, text_attrs: Sequence[str] | str = (TEXT,), join_titles: bool = True, **options: Any
    ) -> None:
        self.path = Path(path)
        self.text_attrs = (text_attrs,) if isinstance(text_attrs, str) else tuple(text_attrs)
        self.join_titles = join_titles
        self.options = options
        self.settings = BuildSettings.of(options)

    def __repr__(self) -> str:
        return f"Indexer({str(self.path)!r}, text_attrs={list(self.text_attrs)!r}{format_options(self.options)})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Indexer):
            return NotImplemented
        return (self.path, self.text_attrs, self.join_titles, self.settings) == (
            other.path, other.text_attrs, other.join_titles, other.settings,
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(("Indexer", self.path))

    def index_inputs(self) -> list[list[str]]:
        """The fields that documents must have."""
        return [["docno", *self.text_attrs]]

    def index(self, iter: Iterable[Mapping[str, Any]], **kwargs: Any) -> Index:
        """Indexes the documents of `iter`, dicts with `docno` and the fields of `text_attrs`; their other fields are stored.

        Raises InputError for documents without docno or text, and where the index exists and `force` is not set.
        """
        build_index(self.path, reader_of(self._documents(iter), self.join_titles), self.settings)
        return open_index(self.path)

    def _documents(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        for number, document in enumerate(documents):
            if not any(name in document for name in self.text_attrs):
                wanted, present = ", ".join(self.text_attrs), ", ".join(map(str, document))
                raise InputError(f"document {number}: no field {wanted}; it has {present}")
            texts = [str(document[name]) for name in self.text_attrs if document.get(name) not in (None, "")]
            yield {**{name: value for name, value in document.items() if name != TEXT}, "contents": "\n".join(texts)}
