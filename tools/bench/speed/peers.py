"""Other libraries in a process of their own, for tools.bench.speed: one JSON question per line, one JSON answer.

    {"task": "bm25s", "folder": "...", "setup": true}   ->  {} or {"error": "..."}
    {"task": "bm25s", "folder": "..."}                  ->  {"cpu": seconds, "clock": seconds}

Imports nothing of kernelsearch: the environment of the libraries does not have it. A task is a function of the folder that
`tools.bench.speed.collection` has filled; it returns the function to time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

HITS = 1000
#: Documents whose vectors `get_document_vector` gives, queries of the slow PRCL, and texts to encode.
SAMPLE, FEW, TEXTS = 500, 3, 16


def queries(folder: Path) -> list[str]:
    """The texts of the queries, from queries.json in `folder`."""
    texts: list[str] = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    return texts


def bm25s(folder: Path) -> Callable[[], Any]:
    """BM25 of bm25s with its default scoring on corpus.jsonl of `folder`: queries one by one, tokenised like the documents."""
    import bm25s

    texts = [json.loads(line)["contents"] for line in (folder / "corpus" / "corpus.jsonl").open(encoding="utf-8")]
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def run() -> None:
        for query in queries(folder):
            retriever.retrieve(bm25s.tokenize(query, show_progress=False), k=HITS, show_progress=False)

    return run


def gensim(folder: Path) -> Callable[[], Any]:
    """gensim's LsiModel of the weighted matrix in `folder`."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LsiModel
    from scipy import sparse

    matrix = sparse.load_npz(folder / "matrix.npz")
    dims = int((folder / "dims.txt").read_text())
    return lambda: LsiModel(Sparse2Corpus(matrix, documents_columns=False), num_topics=dims)


def ranx(folder: Path) -> Callable[[], Any]:
    """ranx: reads run.txt and qrels.txt of `folder` and evaluates by four measures."""
    from ranx import Qrels, Run, evaluate

    measures = ["map", "ndcg@10", "precision@10", "recall@1000"]
    files = str(folder / "qrels.txt"), str(folder / "run.txt")
    return lambda: evaluate(Qrels.from_file(files[0], kind="trec"), Run.from_file(files[1], kind="trec"), measures)


def pytrec_eval(folder: Path) -> Callable[[], Any]:
    """trec_eval's code through pytrec_eval: reads run.txt and qrels.txt of `folder` and evaluates by four measures."""
    import pytrec_eval

    def run() -> object:
        with (folder / "qrels.txt").open() as stream:
            judgements = pytrec_eval.parse_qrel(stream)
        with (folder / "run.txt").open() as stream:
            ranked = pytrec_eval.parse_run(stream)
        return pytrec_eval.RelevanceEvaluator(judgements, {"map", "ndcg_cut_10", "P_10", "recall_1000"}).evaluate(ranked)

    return run


def start_pyserini() -> None:
    """Starts Java for pyserini; replaces an encoder of images that it imports and does not install."""
    from tools.bench.probes import start_java

    if "jnius" not in sys.modules:
        start_java()
    for name in ("", ".uniir_corpus_encoder", ".uniir_query_encoder"):
        sys.modules["uniir_for_pyserini.pyserini_integration" + name] = MagicMock()
    sys.modules["uniir_for_pyserini"] = MagicMock()


def document_vectors(folder: Path) -> Callable[[], Any]:
    """Pyserini's get_document_vector of a sample of the documents of the index in `folder`.

    Writes how many postings the sample has to postings.txt.
    """
    import random

    start_pyserini()
    from pyserini.index.lucene import LuceneIndexReader

    reader = LuceneIndexReader(str(folder / "index"))
    documents = reader.stats()["documents"]
    numbers = random.Random(0).sample(range(documents), min(documents, SAMPLE))
    docids = [reader.convert_internal_docid_to_collection_docid(number) for number in numbers]
    postings = sum(len(reader.get_document_vector(docid)) for docid in docids)
    (folder / "postings.txt").write_text(str(postings))
    return lambda: [reader.get_document_vector(docid) for docid in docids]


def rm3(folder: Path) -> Callable[[], Any]:
    """Pyserini's RM3 on the index in `folder`, hit by hit into Python."""
    start_pyserini()
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(folder / "index"))
    searcher.set_rm3()
    return lambda: [[(hit.docid, hit.score) for hit in searcher.search(query, k=HITS)] for query in queries(folder)]


def prcl(folder: Path) -> Callable[[], Any]:
    """Pyserini's pseudo-relevance classifier: logistic regression over tf·idf of BM25's list, on the index in `folder`."""
    start_pyserini()
    from pyserini.search.lucene import LuceneSearcher
    from pyserini.search.lucene.reranker import ClassifierType, PseudoRelevanceClassifierReranker

    searcher = LuceneSearcher(str(folder / "index"))
    classifier = PseudoRelevanceClassifierReranker(str(folder / "index"), "TfidfVectorizer", [ClassifierType.LR])

    def run() -> None:
        for query in queries(folder)[:FEW]:
            hits = searcher.search(query, k=HITS)
            classifier.r, classifier.n = 10, min(100, len(hits) - 10)
            classifier.rerank([hit.docid for hit in hits], [hit.score for hit in hits])

    return run


class KnownQueries:
    """A query encoder that looks vectors of queries.npz in `folder` up, so that both sides search without an encoder."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        vectors = np.load(folder / "queries.npz")["vectors"].astype(np.float32)
        self.vectors = dict(zip(queries(folder), vectors, strict=True))

    def encode(self, query: str) -> Any:
        """The vector of a `query`, float32."""
        return self.vectors[query]


def faiss_searcher(folder: Path) -> Callable[[], Any]:
    """Pyserini's FaissSearcher on the flat index in `folder`; writes the bytes by which memory grows to faiss_memory.txt."""
    start_pyserini()
    from pyserini.search.faiss import FaissSearcher

    before = resident()
    searcher = FaissSearcher(str(folder / "faiss"), KnownQueries(folder))
    searcher.search(queries(folder)[0], HITS)
    (folder / "faiss_memory.txt").write_text(str(resident() - before))
    return lambda: [searcher.search(query, HITS) for query in queries(folder)]


def hybrid_searcher(folder: Path) -> Callable[[], Any]:
    """Pyserini's HybridSearcher: FaissSearcher and LuceneSearcher on the indexes in `folder`, scores normalised and added."""
    start_pyserini()
    from pyserini.search.faiss import FaissSearcher
    from pyserini.search.hybrid import HybridSearcher
    from pyserini.search.lucene import LuceneSearcher

    dense = FaissSearcher(str(folder / "faiss"), KnownQueries(folder))
    hybrid = HybridSearcher(dense, LuceneSearcher(str(folder / "index")))
    return lambda: [hybrid.search(query, HITS, HITS, 1.0, normalization=True) for query in queries(folder)]


def resident() -> int:
    """Bytes of this process that are in memory."""
    from tools.bench.process_memory import process_memory

    return process_memory("VmRSS")


def encoder_model(folder: Path) -> Callable[[], Any]:
    """Makes `folder/model`: a BERT of MiniLM's shape with random weights, for transformers and as ONNX."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    consonants, vowels = "bdfgklmnprtvz", "aou"
    pieces = [a + b for a in consonants for b in vowels] + list("abcdefghijklmnopqrstuvwxyz")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *("##" + piece for piece in pieces)]
    model = folder / "model"
    tokenizer = BertTokenizerFast(vocab={word: number for number, word in enumerate(words)})
    tokenizer.save_pretrained(model)
    torch.manual_seed(0)
    shape = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536}
    bert = BertModel(BertConfig(vocab_size=len(words), **shape)).eval()
    bert.save_pretrained(model)

    class Hidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            return self.bert(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    sample = tokenizer(["baka du", "zu"], return_tensors="pt", padding=True)
    torch.onnx.export(
        *(Hidden(), tuple(sample[name] for name in names), str(model / "model.onnx")),
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_axes={name: {0: "batch", 1: "tokens"} for name in (*names, "last_hidden_state")},
        dynamo=False,
    )
    return lambda: None


def sentence_transformers(folder: Path) -> Callable[[], Any]:
    """sentence-transformers with the model of `encoder_model` in `folder`.

    Mean pooling, unit length, 256 tokens, batches of 32.
    """
    import torch
    from sentence_transformers import SentenceTransformer, models

    torch.set_num_threads(os.cpu_count() or 1)  # as onnxruntime takes all cores
    words = models.Transformer(str(folder / "model"), max_seq_length=256)
    pooling = models.Pooling(384)
    encoder = SentenceTransformer(modules=[words, pooling, models.Normalize()], device="cpu")
    lines = (folder / "corpus" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:TEXTS]
    texts = [json.loads(line)["contents"] for line in lines]
    (folder / "encoded.json").write_text(json.dumps(encoder.encode(texts[:4]).tolist()))
    return lambda: encoder.encode(texts, batch_size=32, show_progress_bar=False)


TASKS: dict[str, Callable[[Path], Callable[[], Any]]] = {
    task.__name__: task
    for task in (bm25s, gensim, ranx, pytrec_eval, document_vectors, rm3, prcl, faiss_searcher, hybrid_searcher)
} | {"encoder_model": encoder_model, "sentence_transformers": sentence_transformers}


def main() -> None:
    """Answers the questions of standard input until it ends."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    # Libraries print where they like: the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    ready: dict[tuple[str, str], Callable[[], Any]] = {}
    for line in sys.stdin:
        question = json.loads(line)
        key = question["task"], question["folder"]
        try:
            if question.get("setup"):
                ready[key] = TASKS[key[0]](Path(key[1]))
                answer: dict[str, Any] = {}
            else:
                begun = time.perf_counter(), time.process_time()
                ready[key]()
                answer = {"clock": time.perf_counter() - begun[0], "cpu": time.process_time() - begun[1]}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}".splitlines()[0][:200]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
