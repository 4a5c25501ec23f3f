"""The forward index: a memory-mapped numpy copy of one field's postings, by document.

Rows are Lucene's document numbers, so a ranked list from Lucene needs no translation; a deleted document is an empty row
that is not live. Collection statistics (df, cf, document count, token count) are Lucene's, not sums over the rows: Lucene
includes deleted documents in them until it merges, and scores must be equal to Lucene's bit for bit.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core import artefacts, compiled
from kernelsearch.core.errors import ArtefactError, Flag, IndexProblem, InputError, OptionError, quote
from kernelsearch.forward.format import KIND, NORM_LENGTHS, VERSION, validate
from kernelsearch.forward.selection import Occurrences, Selection, TermPostings

if TYPE_CHECKING:
    from scipy import sparse

#: Number of strings from which on decoding them together is faster than one by one.
MANY = 32
LINE_BREAK = ord("\n")
#: Size of the cache from docids to rows: a lookup takes a tenth of the time of hashing a docid.
CACHED_ROWS = 200_000
#: Size of the cache from terms to their numbers: the words of a query are looked up by every feature.
CACHED_TERMS = 50_000
#: What takes the place of bytes that are no UTF-8; several terms may look the same with it.
UNDECODABLE = "\ufffd"
#: Number of postings up to which they are also held in memory by term, six bytes each.
IN_MEMORY = 4_000_000
#: Selections that a thread keeps, and the most documents of one that is kept: candidates, feedback documents.
CACHED_SELECTIONS, SELECTED_DOCUMENTS = 4, 10_000


def check_field(name: str) -> None:
    """Raises OptionError for the name of a field that can't be the name of a folder, that of its forward index."""
    if Path(name).name != name or name in ("", ".."):
        raise OptionError(f"{quote(name)} is not the name of a field")


class StringTable:
    """A read-only list of strings, decoded on access. Its two arrays can be memory-mapped, so that opening it costs nothing.

    `data` are the UTF-8 bytes of all strings, `ends` (n,) the end of each string in them.

    >>> table = StringTable(np.frombuffer(b"droptap", np.uint8), np.array([4, 7]))
    >>> table[1], len(table), table.find_sorted("drop")
    ('tap', 2, 0)
    """

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._data = data
        self._ends = ends
        # memoryviews: taking a few bytes or one number of them is much faster than of an array
        self._view, self._end_view = np.asarray(data).data, np.asarray(ends).data

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes and the end offsets."""
        return self._data, self._ends

    def raw(self, number: int) -> bytes:
        """Returns the UTF-8 bytes of the string `number`, from 0."""
        start = self._end_view[number - 1] if number else 0
        return self._view[start : self._end_view[number]].tobytes()

    def all_raw(self) -> list[bytes]:
        """Returns the UTF-8 bytes of every string."""
        data, ends = np.asarray(self._data).tobytes(), np.asarray(self._ends).tolist()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def slice(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns the bytes and the sizes of the strings start..end-1."""
        first = int(self._ends[start - 1]) if start else 0
        sizes = np.diff(self._ends[start:end], prepend=first)
        return self._data[first : first + int(sizes.sum())], sizes

    def __getitem__(self, number: int) -> str:
        if number < 0:
            number += len(self)
        return self.raw(number).decode("utf-8", errors="replace")

    def take(self, numbers: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Returns the strings with these numbers."""
        numbers = np.asarray(numbers, dtype=np.int64)
        ends = np.asarray(self._ends[numbers], dtype=np.int64)
        starts = np.where(numbers > 0, self._ends[numbers - 1], 0)
        if len(numbers) >= MANY:
            lines = self._lines(starts, ends - starts)
            if len(lines) == len(numbers):
                return lines
        view = self._view
        return [str(view[start:end], "utf-8", "replace") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _lines(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[str]:
        """The strings decoded together, as lines of one text: more than requested where a string has a line break in it."""
        after = np.cumsum(sizes + 1)
        places = np.arange(after[-1]) + np.repeat(starts - (after - sizes - 1), sizes + 1)
        text = np.asarray(self._data).take(places, mode="clip")
        text[after - 1] = LINE_BREAK  # over the byte behind each string
        return str(text[:-1].data, "utf-8", "replace").split("\n")

    def made_of(self, allowed: NDArray[np.bool_], shortest: int = 0, longest: int | None = None) -> NDArray[np.bool_]:
        """Returns which strings consist of allowed bytes only and have `shortest` to `longest` of them, shape (n,).

        `allowed` (256,) says which bytes are allowed.
        """
        foreign = np.concatenate([[0], np.cumsum(~allowed[self._data], dtype=np.int32)])
        ends = np.asarray(self._ends, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
        sizes = ends - starts
        fits: NDArray[np.bool_] = (sizes >= shortest) & (sizes <= (sizes if longest is None else longest))
        fits &= foreign[ends] == foreign[starts]
        return fits

    def find_sorted(self, text: str) -> int:
        """Returns the number of the string `text` in a table that is sorted by UTF-8 bytes, or -1."""
        wanted = text.encode("utf-8", errors="replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.raw(low) == wanted else -1


def hashes(strings: Iterable[bytes]) -> NDArray[np.uint64]:
    """Returns a 64-bit hash for each of `strings`, shape (n,), that is the same on every machine and in every run."""
    digest = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in strings)
    return np.frombuffer(digest, dtype="<u8")


@dataclass(frozen=True)
class Statistics:
    """A field's statistics as Lucene reports them."""

    documents: int  #: documents that have the field (Lucene's docCount)
    tokens: int  #: sum of all term frequencies (sumTotalTermFreq)
    postings: int  #: sum of all document frequencies (sumDocFreq)

    @property
    def average_length(self) -> np.float32:
        """The average document length (avgdl) in single precision, as Lucene computes it."""
        return np.float32(self.tokens / self.documents) if self.documents else np.float32(1.0)


class ForwardIndex:
    """One field's term frequencies and positions by document, opened from the folder `path`.

    Raises ArtefactError for a folder that is damaged or belongs to an index with another `fingerprint`.

    Attributes (arrays are memory-mapped):

    - `indptr` (n+1,), `indices` (nnz,), `frequencies` (nnz,): term numbers, ascending within a row, and their counts
    - `lengths` (n,): exact token counts; `norms` (n,): Lucene's one-byte lengths; `live` (n,): False for deleted documents
    - `df`, `cf` (terms,): document and collection frequencies
    - `terms`, `docids`: string tables; terms are sorted by their UTF-8 bytes
    - `docid_rank` (n,): each document's rank when docids are sorted, for breaking ties
    - `statistics`, `field`, `fingerprint`, `has_positions`
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        meta, mapped = artefacts.load(self.path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        # Plain arrays over the same mapped memory: every small slice of a numpy.memmap is several times slower.
        arrays = {name: np.asarray(array) for name, array in mapped.items()}
        try:
            self.fingerprint: str = meta["fingerprint"]
            self.field: str = meta["parameters"]["field"]
            self.statistics = Statistics(**meta["extra"]["statistics"])
            self.has_positions: bool = meta["parameters"]["positions"]
            self.indptr: NDArray[np.int64] = arrays["indptr"]
            self.indices: NDArray[np.int32] = arrays["indices"]
            self.frequencies: NDArray[Any] = arrays["frequencies"]
            self.lengths: NDArray[np.int32] = arrays["lengths"]
            self.norms: NDArray[np.uint8] = arrays["norms"]
            self.live: NDArray[np.bool_] = arrays["live"]
            self.df: NDArray[np.int32] = arrays["df"]
            self.cf: NDArray[np.int64] = arrays["cf"]
            self.terms = StringTable(arrays["term_bytes"], arrays["term_ends"])
            self.docids = StringTable(arrays["docid_bytes"], arrays["docid_ends"])
            self.docid_rank: NDArray[np.int32] = arrays["docid_rank"]
            self._hashes: NDArray[np.uint64] = arrays["docid_hashes"]
            self._hash_rows: NDArray[np.int32] = arrays["docid_hash_rows"]
            self._positions: NDArray[np.int32] = arrays["positions"]
            self._row_cache: dict[str, int] = {}
            self._term_cache: dict[str, int] = {}
            self._selections = threading.local()
            self._posting_arguments: tuple[int, ...] | None = None
        except (KeyError, TypeError) as problem:
            raise ArtefactError(f"damaged, no {problem}; build the forward index again", path=self.path) from None

    def __repr__(self) -> str:
        return (
            f"ForwardIndex({str(self.path)!r}: {len(self)} documents, {len(self.terms)} terms, {len(self.indices)} postings"
            f"{', positions' if self.has_positions else ''})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its path: another process maps the same files."""
        return _reopen, (self.path.absolute(), self.fingerprint)

    def __len__(self) -> int:
        """The number of rows, deleted documents included (Lucene's maxDoc)."""
        return len(self.lengths)

    @cached_property
    def live_docs(self) -> NDArray[np.int32]:
        """Rows of documents that aren't deleted."""
        return np.flatnonzero(self.live).astype(np.int32)

    def term_ids(self, terms: Iterable[str]) -> NDArray[np.int32]:
        """Returns the term numbers, shape (terms,); -1 for terms that the index doesn't have."""
        cache, numbers = self._term_cache, []
        for term in terms:
            number = cache.get(term)
            if number is None:
                if len(cache) >= CACHED_TERMS:
                    cache.clear()
                number = cache[term] = self.terms.find_sorted(term)
            numbers.append(number)
        return np.array(numbers, dtype=np.int32)

    def words(self, numbers: NDArray[np.integer]) -> list[str]:
        """Returns terms by their numbers, and caches the numbers for `term_ids`: a query of these terms is looked up next."""
        strings = self.terms.take(numbers)
        if len(self._term_cache) + len(strings) > CACHED_TERMS:
            self._term_cache.clear()
        pairs = zip(strings, numbers.tolist(), strict=True)
        self._term_cache.update((term, number) for term, number in pairs if UNDECODABLE not in term)
        return strings

    def rows_of(self, docids: Sequence[str]) -> NDArray[np.int32]:
        """Returns the rows of live documents by docid, shape (docids,); -1 for docids that the index doesn't have."""
        rows = np.fromiter(map(self._row_cache.get, docids, repeat(-1)), dtype=np.int32, count=len(docids))
        if (rows >= 0).all():
            return rows
        places = np.flatnonzero(rows < 0)
        unseen = [docids[place] for place in places.tolist()]
        rows[places] = unseen_rows = self._find(unseen)
        if len(self._row_cache) + len(unseen) > CACHED_ROWS:
            self._row_cache = {}
        self._row_cache.update((docid, row) for docid, row in zip(unseen, unseen_rows.tolist(), strict=True) if row >= 0)
        return rows

    def require_rows(self, docids: Sequence[str], *, label: Flag | str, collection: str) -> NDArray[np.int32]:
        """Returns the rows of live documents by docid, shape (docids,); InputError where the index lacks some of them.

        The message begins with `label`, the option or file that named the documents, and calls the index `collection`.
        """
        rows = self.rows_of(docids)
        missing = [docids[place][:100] for place in np.flatnonzero(rows < 0).tolist()]
        if missing and len(docids) == 1:
            raise InputError(label, f": {missing[0]!r} is not in {collection}")
        if missing:
            raise InputError(
                label,
                f": {len(missing)} of {len(docids)} documents are not in {collection}, such as {', '.join(missing[:3])}",
            )
        return rows

    def _find(self, docids: Sequence[str]) -> NDArray[np.int32]:
        """As `rows_of`, by binary search in the stored hashes."""
        if not len(self._hashes):
            return np.full(len(docids), -1, dtype=np.int32)
        keys = [docid.encode("utf-8", errors="replace") for docid in docids]
        wanted = hashes(keys)
        places = np.searchsorted(self._hashes, wanted)
        likely = np.minimum(places, len(self._hashes) - 1)
        rows = np.where(self._hashes[likely] == wanted, self._hash_rows[likely], -1).astype(np.int32)
        stored = self.docids.take(np.maximum(rows, 0))
        pairs = zip(rows.tolist(), stored, docids, strict=True)
        for number in [number for number, (row, docid, sought) in enumerate(pairs) if row >= 0 and docid != sought]:
            place, rows[number] = int(places[number]), -1
            # Different docids may have the same hash: compare all that do.
            while place < len(self._hashes) and self._hashes[place] == wanted[number]:
                row = int(self._hash_rows[place])
                if self.docids.raw(row) == keys[number]:
                    rows[number] = row
                    break
                place += 1
        return rows

    def document_keys(self) -> NDArray[np.uint64]:
        """A hash of docid and length per live document, shape (live,), by which two states of an index are compared.

        A document that replaced another one of the same docid and the same number of tokens has the same hash.
        """
        return self._hashes ^ (self.lengths[self._hash_rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))

    def gather(self, docs: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the postings of the rows `docs`: (indptr of the selection, places in `indices` and `frequencies`)."""
        docs = np.asarray(docs)
        starts = np.asarray(self.indptr[docs], dtype=np.int64)
        return _ranges(starts, np.asarray(self.indptr[docs + 1], dtype=np.int64) - starts)

    def matrix(self, docs: NDArray[np.integer] | None = None, dtype: DTypeLike = np.float64) -> sparse.csr_matrix:
        """Returns the term frequencies of the rows `docs` (all rows if None) as CSR of `dtype`, shape (documents, terms)."""
        from scipy import sparse  # imported here: it would double the time to a first result

        if docs is None:
            parts = (np.asarray(self.frequencies, dtype=dtype), np.asarray(self.indices), np.asarray(self.indptr))
            return sparse.csr_matrix(parts, shape=(len(self), len(self.terms)))
        indptr, places = self.gather(docs)
        parts = (self.frequencies[places].astype(dtype), self.indices[places], indptr)
        return sparse.csr_matrix(parts, shape=(len(docs), len(self.terms)))

    def select(self, docs: NDArray[np.integer]) -> Selection:
        """Returns the postings of the rows `docs` in memory. The last few selections of a thread are cached, since several
        features of the same candidates need the same postings."""
        recent: list[Selection] | None = getattr(self._selections, "recent", None)
        if recent is None:
            recent = self._selections.recent = []
        for selection in recent:
            if np.array_equal(selection.docs, docs):
                return selection
        selection = self._read(np.array(docs))
        if len(selection) <= SELECTED_DOCUMENTS:
            recent.append(selection)
            del recent[:-CACHED_SELECTIONS]
        return selection

    def compiled_rows(self, docs: NDArray[np.integer]) -> compiled.PostingRows | None:
        """Returns the rows `docs` as the compiled loops over postings take them; None where there are no loops."""
        library = compiled.loops()
        if library is None or self.frequencies.dtype not in compiled.FREQUENCIES:
            return None
        arrays = self.indptr, self.indices, self.frequencies
        if self._posting_arguments is None:
            self._posting_arguments = compiled.posting_arguments(*arrays, len(self.terms))
        return compiled.PostingRows(library, self._posting_arguments, arrays, np.ascontiguousarray(docs, dtype=np.int32))

    def _read(self, docs: NDArray[np.integer]) -> Selection:
        if self._postings is None:
            indptr, places = self.gather(docs)
            return Selection(docs, indptr, self.indices[places], self.frequencies[places], len(self.terms))
        rows = self._postings[docs]  # SciPy copies rows several times as fast as numpy collects places
        return Selection(docs, rows.indptr, rows.indices, rows.data, len(self.terms))

    @cached_property
    def _postings(self) -> sparse.csr_matrix | None:
        """All postings as CSR over the mapped arrays; None if there are more than fit its 32-bit offsets."""
        from scipy import sparse

        if len(self.indices) > np.iinfo(np.int32).max or self.frequencies.dtype.kind not in "iu":
            return None
        parts = (self.frequencies, self.indices, self.indptr.astype(np.int32))
        return sparse.csr_matrix(parts, shape=(len(self), len(self.terms)))

    @cached_property
    def by_term(self) -> TermPostings | None:
        """The postings by term, of an index small enough to hold them in memory; else None."""
        if len(self.indices) > IN_MEMORY or self._postings is None:
            return None
        columns = self._postings.tocsc()
        return TermPostings(columns.indptr.astype(np.int64), columns.indices, columns.data)

    def occurrences(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> Occurrences:
        """Returns where distinct terms occur in some documents; the rows count from the first of `docs`."""
        if (rows := self.compiled_rows(docs)) is None:
            return self.select(docs).occurrences(terms)
        numbers = np.asarray(terms, dtype=np.int64)
        order = np.argsort(numbers)
        order = order[np.searchsorted(numbers[order], 0) :]
        table = compiled_term_frequencies(rows, numbers[order]).ravel()
        places = np.flatnonzero(table)
        row, column = np.divmod(places, max(len(order), 1))
        return Occurrences(row, order[column], table[places])

    def term_frequencies(self, docs: NDArray[np.integer], terms: NDArray[np.integer]) -> NDArray[np.int32]:
        """Returns the frequencies of a few terms in the rows `docs`, dense, shape (documents, terms); zeros for term -1."""
        if (rows := self.compiled_rows(docs)) is None:
            return self.select(docs).term_frequencies(terms)
        distinct, column = np.unique(np.asarray(terms, dtype=np.int64), return_inverse=True)
        unknown = int(np.searchsorted(distinct, 0))  # 1 with a term -1, which comes first
        table = compiled_term_frequencies(rows, distinct[unknown:])
        if unknown:
            table = np.column_stack([np.zeros(len(table), dtype=np.int32), table])
        return table[:, column]

    def positions(self, docs: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Returns the tokens of `docs`: (token indptr, term numbers, positions), by document, term and position."""
        self.require_positions()
        docs = np.asarray(docs)
        _, postings = self.gather(docs)
        starts = self.token_indptr[docs]
        indptr, tokens = _ranges(starts, self.lengths[docs].astype(np.int64))
        terms = np.repeat(self.indices[postings], self.frequencies[postings])
        return indptr, terms, self._positions[tokens]

    def stored(self, start: int, end: int) -> tuple[NDArray[np.int32], NDArray[Any], NDArray[np.int32]]:
        """Returns rows start..end-1 as they are stored: term numbers, frequencies, positions (empty if not indexed)."""
        postings = slice(int(self.indptr[start]), int(self.indptr[end]))
        tokens = slice(int(self.token_indptr[start]), int(self.token_indptr[end]))
        return self.indices[postings], self.frequencies[postings], self._positions[tokens]

    def tokens(self, doc: int) -> NDArray[np.int32]:
        """Returns the term numbers of the document in row `doc` by position; -1 where the analyser removed a token."""
        _, terms, places = self.positions(np.array([doc]))
        sequence = np.full(int(places.max()) + 1 if len(places) else 0, -1, dtype=np.int32)
        sequence[places] = terms
        return sequence

    @cached_property
    def token_indptr(self) -> NDArray[np.int64]:
        """The offset of each row's tokens in the stored positions, shape (n+1,)."""
        return np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])

    def require_terms(self) -> None:
        """Raises IndexProblem if no document has a term in the field."""
        if not len(self.terms):
            raise IndexProblem(f"field {self.field!r} has no terms: its texts are stop words and signs only", path=self.path)

    def require_positions(self) -> None:
        """Raises IndexProblem if the field was indexed without token positions, or has no terms that could have any."""
        if not self.has_positions:
            self.require_terms()
            raise IndexProblem(
                f"field {self.field!r} was indexed without positions; index again with positions "
                "(kernelsearch.index stores them by default, Pyserini with --storePositions)",
                path=self.path,
            )

    @cached_property
    def norm_lengths(self) -> NDArray[np.float32]:
        """The document lengths that Lucene scores with, decoded from the norm bytes, shape (n,)."""
        return NORM_LENGTHS[self.norms]


def compiled_term_frequencies(rows: compiled.PostingRows, terms: NDArray[np.int64]) -> NDArray[np.int32]:
    """The frequencies of distinct `terms`, ascending, in the documents `rows`, by the compiled loop, (documents, terms)."""
    count, size = len(rows.docs), len(terms)
    out = np.zeros((count, size), dtype=np.int32)
    compiled.call(
        rows.library.kernelsearch_term_frequencies,
        *(*rows.postings, (rows.docs, np.int32, count), count, (terms, np.int64, size), size, (out, np.int32, count, size)),
    )
    return out


def _reopen(path: Path, fingerprint: str) -> ForwardIndex:
    return ForwardIndex(path, fingerprint=fingerprint)


def _ranges(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offset of each range start..start+size in their concatenation, and the concatenation."""
    indptr = np.zeros(len(starts) + 1, dtype=np.int64)
    np.cumsum(sizes, out=indptr[1:])
    places = np.arange(indptr[-1], dtype=np.int64)
    places += np.repeat(starts - indptr[:-1], sizes)
    return indptr, places
