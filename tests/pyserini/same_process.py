"""Run by test_same_process.py in a process of its own, because a process has one JVM: both libraries search one index.

python same_process.py kernelsearch|pyserini INDEX QUERY...   (the first word says which of the two starts Java)
prints what each found, as one JSON object per query.
"""

import json
import sys

HITS = 20


def main(first: str, path: str, texts: list[str]) -> None:
    if first == "kernelsearch":
        import kernelsearch

        index = kernelsearch.open(path)
        ours = _ours(index, texts)
        from pyserini.index.lucene import LuceneIndexReader
        from pyserini.search.lucene import LuceneSearcher
    else:
        from pyserini.index.lucene import LuceneIndexReader
        from pyserini.search.lucene import LuceneSearcher

        LuceneSearcher(path).search(texts[0])
        import kernelsearch

        index = kernelsearch.open(path)
        ours = _ours(index, texts)
    searcher, reader = LuceneSearcher(path), LuceneIndexReader(path)
    for text, (docids, scores) in zip(texts, ours, strict=True):
        hits = searcher.search(text, HITS)
        raw = [reader.compute_query_document_score(hit.docid, text) for hit in hits]
        again = _ours(index, [text])[0]
        print(
            json.dumps(
                {
                    "ours": [docids, scores],
                    "ours after pyserini": list(again),
                    "pyserini": [[hit.docid for hit in hits], [float(hit.score) for hit in hits]],
                    "pyserini raw scores": raw,
                }
            )
        )


def _ours(index, texts: list[str]) -> list[tuple[list[str], list[float]]]:
    lists = index.lucene.search(index.lucene.queries(texts), HITS)
    return [(list(index.forward.docids.take(result.docs)), result.scores.tolist()) for result in lists]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
