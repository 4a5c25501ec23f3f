"""A script as Pyserini's users write it. test_dropin.py runs it as it is, and with this one line changed."""

import sys

from pyserini.search.lucene import LuceneSearcher

searcher = LuceneSearcher(sys.argv[1])
searcher.set_bm25(k1=0.8, b=0.3)
print("documents:", searcher.num_docs)

hits = searcher.search("dripping tap")
for i in range(len(hits)):
    print(f"{i + 1:2} {hits[i].docid:15} {hits[i].score:.5f}", hits[i].lucene_document.get("raw")[:40].replace("\n", " "))

results = searcher.batch_search(["blown fuse", "squeaky door"], ["q1", "q2"], k=5, threads=2)
for qid in sorted(results):
    for hit in results[qid]:
        print(qid, hit.docid, hit.lucene_docid, hit.score)

searcher.set_qld(mu=500)
print([hit.docid for hit in searcher.search("squeaky door", k=3)])
searcher.set_bm25()
searcher.set_rm3(10, 10, 0.5)
print(searcher.is_using_rm3(), [hit.docid for hit in searcher.search("squeaky door", k=3)])
print(sorted(searcher.get_feedback_terms("squeaky door").items()))
searcher.unset_rm3()

print([hit.score for hit in searcher.search("leaking tap", k=5, fields={"title": 2.0, "contents": 1.0})])
print(searcher.doc(hits[0].docid).raw() == searcher.doc(hits[0].lucene_docid).raw(), searcher.doc("no-such-document"))
print(sorted(searcher.batch_doc([hits[0].docid, "no-such-document"], 2)))
