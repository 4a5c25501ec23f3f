"""Every reader of user files, with a valid file for it to start from."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api import config
from kernelsearch.cli import merging
from kernelsearch.cli.search_settings import IN_CONFIG
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.records import Skipped
from kernelsearch.clicks.records import read as read_clicks
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.similarity.groups import groups_from_pairs
from kernelsearch.trec import read_qrels, read_run, read_topics
from kernelsearch.trec.documents import read_documents
from kernelsearch.tuning.journal import Journal
from kernelsearch.vectors.readers import open_vectors

_JSONL = "\n".join(
    json.dumps({"id": f"d{number}", "contents": "a dripping tap", "title": "tap", "price": 3.5, "tags": ["a", {"b": 1}]})
    for number in range(4)
)
_RUN = "\n".join(f"{qid} Q0 d{rank} {rank} {3.5 / rank:.4f} tag" for qid in (1, 2) for rank in (1, 2, 3))
_QRELS = "\n".join(f"{qid} 0 d{rank} {rank % 3}" for qid in (1, 2) for rank in (1, 2, 3))
_TREC = "\n".join(
    f"<DOC>\n<DOCNO> d{n} </DOCNO>\n<TITLE>a tap</TITLE>\n<TEXT>\n<P>drips</P>\n</TEXT>\n</DOC>" for n in range(3)
)
_TOPICS = "<top>\n<num> Number: 301\n<title> dripping tap\n<desc> Description:\nhow to repair\n<narr> long\n</top>\n"
_CONFIG = """index = "indexes/demo"
topics = "topics.tsv"
[first-stage]
k1 = 1.2
hits = 100
[[rerank]]
name = "klsa"
z = 10
[made-with]
numpy = "2.0"
"""
_SESSIONS = "\n".join(
    json.dumps({"query": "tap", "items": [{"docid": f"d{n}", "clicked": n == 1, "rank": n + 1} for n in range(3)]})
    for _ in range(3)
)
_TABLE = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
_PAGE = "<html><head><title>Taps</title></head><body><p>A <b>dripping</b> tap</p><script>x</script></body></html>"


def _documents(kind: str) -> Callable[[Path], Any]:
    return lambda path: list(read_documents(path, kind))


def _evaluate(path: Path) -> Any:
    """Judgements that were read must be evaluated as well: the library behind is C code."""
    return evaluate(read_qrels(path), {"1": [("d1", 2.0), ("d2", 1.0)]}, parse_measures(["AP", "nDCG@10", "RR"]))


def _evaluate_run(path: Path) -> Any:
    return evaluate({"1": {"d1": 1, "d2": 0}}, read_run(path), parse_measures(["AP", "P@5"]))


def _measure(path: Path) -> Any:
    names = path.read_bytes().decode("utf-8", "replace").split("\n")
    return evaluate({"1": {"d1": 1, "d2": 0}}, {"1": [("d1", 1.0)]}, parse_measures(names))


def _clicks(path: Path) -> Any:
    database = path.with_suffix(".db")
    try:
        return import_log([path], database)
    finally:
        database.unlink(missing_ok=True)


def _journal(path: Path) -> Any:
    with Journal(path, "id", ["1", "2"]) as journal:
        return journal.values


def _vectors(path: Path) -> Any:
    return [block.vectors.sum() for block in open_vectors(path).blocks(2)]


def _numpy_vectors(path: Path) -> Any:
    path.with_name("ids.txt").write_text("d0\nd1\nd2\nd3\nd4\nd5\n")
    return [block.vectors.sum() for block in open_vectors(path, path.with_name("ids.txt")).blocks(64)]


def _faiss_vectors(path: Path) -> Any:
    (path.parent / "faiss").mkdir(exist_ok=True)
    (path.parent / "faiss" / "docid").write_text("d0\nd1\nd2\nd3\nd4\nd5\n")
    (path.parent / "faiss" / "index").write_bytes(path.read_bytes())
    return _vectors(path.parent / "faiss")


def _npz(write: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    write(file, ids=np.array([f"d{number}" for number in range(6)]), vectors=_TABLE)
    return file.getvalue()


def _npy() -> bytes:
    file = io.BytesIO()
    np.save(file, _TABLE)
    return file.getvalue()


def _faiss(kind: str) -> bytes:
    import faiss

    index = faiss.index_factory(4, kind, faiss.METRIC_INNER_PRODUCT)
    index.train(_TABLE)
    index.add(_TABLE)
    return faiss.serialize_index(index).tobytes()


def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    ids = [f"d{number}" for number in range(6)]
    parquet.write_table(pyarrow.table({"id": ids, "contents": ids, "vector": _TABLE.tolist()}), file)
    return file.getvalue()


def _pdf() -> bytes:
    import pypdf

    writer = pypdf.PdfWriter()
    writer.add_blank_page(200, 200)
    writer.add_metadata({"/Title": "Taps"})
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def _journal_lines() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        with Journal(path, "id", ["1", "2"]) as journal:
            journal.add({"k1": 0.9}, np.array([0.5, 0.25]))
            journal.add({"k1": 1.2}, np.array([0.5, 0.75]))
        return path.read_bytes()


#: {name: (suffix of the file, its valid content, the function that reads it)}
READERS: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "documents-jsonl": (".jsonl", _JSONL.encode(), _documents("jsonl")),
    "documents-json": (".json", f"[{_JSONL.replace(chr(10), ',')}]".encode(), _documents("json")),
    "documents-csv": (".csv", b'id,title,text\n1,"A, b","two\nlines"\n2,c,d\n', _documents("csv")),
    "documents-tsv": (".tsv", b"1\tsome text\n2\tother text\n", _documents("tsv")),
    "documents-trec": ("", _TREC.encode(), _documents("trec")),
    "documents-html": (".html", _PAGE.encode(), _documents("html")),
    "documents-markdown": (".md", b"---\ntitle: Taps\n---\n# Taps\n\nA *dripping* tap\n", _documents("markdown")),
    "documents-guessed": ("", _JSONL.encode(), lambda path: list(read_documents(path))),
    "documents-parquet": (".parquet", _parquet(), _documents("parquet")),
    "documents-pdf": (".pdf", _pdf(), _documents("pdf")),
    "topics-tsv": ("", b"1\tdripping tap\n2\tblown fuse\n", read_topics),
    "topics-trec": ("", _TOPICS.encode(), lambda path: read_topics(path, field="title+description")),
    "topics-jsonl": ("", b'{"_id": "1", "text": "tap"}\n{"qid": 2, "query": "fuse"}\n', read_topics),
    "topics-cacm": ("", b"<DOC>\n<DOCNO> 1 </DOCNO>\nWhat articles exist\n</DOC>\n", read_topics),
    "qrels": ("", _QRELS.encode(), _evaluate),
    "run": ("", _RUN.encode(), _evaluate_run),
    "run-msmarco": ("", b"1\td1\t1\n1\td2\t2\n2\td1\t1\n", _evaluate_run),
    "run-to-merge": ("", _RUN.encode(), merging.read),
    "measures": ("", b"AP\nnDCG@10\nP(rel=2)@5\nRR\nmap", _measure),
    "config": (".toml", _CONFIG.encode(), lambda path: config.read(path, IN_CONFIG)),
    "clicks-sessions": ("", _SESSIONS.encode(), _clicks),
    "clicks-table": ("", b"query\tdocid\tclicks\timpressions\tposition\ntap\td1\t3\t9\t1.5\nfuse\td2\t1\t4\t2\n", _clicks),
    "clicks-csv": ("", b'query;docid;clicked;rank\n"tap; ""old""";d1;true;1\nfuse;d2;0;2\nfuse;d3;1;\n', _clicks),
    "clicks-skipped": ("", _SESSIONS.encode(), lambda path: list(read_clicks(path, Skipped()))),
    "similar-pairs": ("", b"d1\td2\nd3 d4\n", groups_from_pairs),
    "tuning-journal": ("", _journal_lines(), _journal),
    "vectors-jsonl": (".jsonl", b'{"id": "d1", "vector": [0.5, 1.0]}\n{"id": "d2", "vector": [1e3, -2]}\n', _vectors),
    "vectors-npz": (".npz", _npz(np.savez_compressed), _vectors),
    "vectors-npz-stored": (".npz", _npz(np.savez), _vectors),
    "vectors-npy": (".npy", _npy(), _numpy_vectors),
    "vectors-parquet": (".parquet", _parquet(), _vectors),
    "vectors-faiss-flat": ("", _faiss("Flat"), _faiss_vectors),
    "vectors-faiss-hnsw": ("", _faiss("HNSW4,Flat"), _faiss_vectors),
    "vectors-faiss-ivf": ("", _faiss("IVF1,Flat"), _faiss_vectors),
}

with suppress(ModuleNotFoundError):  # the product alone
    from tests.papers.readers import READERS as OF_PAPERS

    READERS |= OF_PAPERS
