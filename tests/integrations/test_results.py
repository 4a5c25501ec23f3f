"""The Python API: `Index.search`, `Index.explain`, their options, and how results print."""

from __future__ import annotations

import copy
import pickle

import pytest

import kernelsearch
from kernelsearch.api.results import Hits
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.lucene.models import BM25Model
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.explanations import Contribution, Explanation
from kernelsearch.similarity import SimilarDocuments


def test_search_gives_the_first_stage_without_rerank(tiny):
    results = tiny.search("replace the water tap", k=3)
    result = tiny.lucene.search([tiny.query("replace the water tap")], 3)[0]
    assert results.docids == tiny.forward.docids.take(result.docs)
    assert results.scores == result.scores.tolist()
    assert results.methods == ()


def test_first_stage_options_are_keywords(tiny):
    results = tiny.search("replace the water tap", k=5, k1=2.0, b=0.1)
    result = tiny.lucene.search([tiny.query("replace the water tap")], 5, model=BM25Model(2.0, 0.1))[0]
    assert results.scores == result.scores.tolist()


def test_method_options_carry_the_methods_name(ready, topics):
    index, text = ready("pert"), next(iter(topics.values()))
    unchanged = index.search(text, rerank="pert", pert_alpha=0.0)
    assert unchanged.docids == index.search(text).docids
    strong = index.search(text, rerank="pert", pert_alpha=0.9)
    assert strong.scores == index.search(text, rerank={"pert": {"alpha": 0.9}}).scores != unchanged.scores


def test_the_same_search_again_uses_the_same_pipeline(tiny):
    assert tiny.pipeline("pert", k1=1.5) is tiny.pipeline("pert", k1=1.5)
    assert tiny.pipeline("pert", k1=1.5) is not tiny.pipeline("pert", k1=1.6)


def test_more_results_than_hits_are_possible(demo_index):
    assert len(demo_index.search("the tap drips water in a house with a wall", k=300)) > 50


def test_moved_counts_places_against_the_first_stage(ready, topics):
    text = next(iter(topics.values()))
    before = ready("pert").search(text, k=1000).docids
    after = ready("pert").search(text, rerank="pert", k=20)
    expected = [before.index(docid) - place if docid in before else None for place, docid in enumerate(after.docids)]
    assert after.moved() == expected
    assert any(expected)


def test_results_print_as_a_table(tiny):
    lines = repr(tiny.search("dripping tap", k=2)).splitlines()
    assert lines[0] == "'dripping tap', first stage"
    assert lines[1].split() == ["rank", "docid", "score", "text"]
    assert lines[3].split()[:2] == ["1", "d1"]
    assert "A dripping tap wastes water." in lines[3]
    assert "moved" in repr(tiny.search("dripping tap", rerank="pert"))
    assert repr(tiny.search("zebra")) == "'zebra', first stage: no document matches"


def test_html_is_escaped(tiny):
    page = tiny.search("<b>tap</b>")._repr_html_()
    assert page.count("<tr>") == 2  # the header and the one document with a tap
    assert "&lt;b&gt;tap" in page
    assert "<b>tap" not in page
    assert page.count('<td style="text-align: left">') == 2 * page.count("<tr>") - 2, "docid and text; numbers stand right"


def test_hits_know_their_document(tiny):
    hit = tiny.search("dripping tap")[0]
    assert hit.docid == "d1"
    assert hit.contents.startswith("A dripping tap")
    assert '"title" : "Dripping tap"' in hit.raw
    assert hit.lucene_document.get("id") == "d1"
    assert hit.get("nothing") is None
    assert tiny.forward.docids[hit.lucene_docid] == "d1"


def test_results_are_a_sequence(tiny):
    results = tiny.search("water panel")
    assert [hit.docid for hit in results] == [results[place].docid for place in range(len(results))]
    assert [hit.docid for hit in results[:1]] == ["d5"]


def test_indexes_and_hits_are_sent_by_path(tiny):
    hit = pickle.loads(pickle.dumps(tiny.search("dripping tap")[0]))
    assert (hit.docid, hit.contents[:10]) == ("d1", "A dripping")


def test_similar_documents_are_the_engines(demo_index):
    result = demo_index.similar("hr230", k=5)
    assert [(hit.docid, hit.score) for hit in result] == SimilarDocuments(demo_index).find("hr230", top=5)
    assert result[0].contents
    with pytest.raises(OptionError, match="k: 0 is below 1"):
        demo_index.similar("hr230", k=0)


def test_relative_paths_follow_python_to_another_folder(tiny_path, monkeypatch):
    """Java stays where it was started; a notebook changes folders all the time."""
    monkeypatch.chdir(tiny_path.parent)
    assert kernelsearch.open(tiny_path.name).search("dripping tap").docids == ["d1"]


def test_an_index_says_what_it_holds(tiny):
    assert repr(tiny).endswith("6 documents, fields contents, title)")


@pytest.mark.parametrize("name", registry.names())
def test_explanations_are_shown_with_titles(ready, topics, name):
    text = next(iter(topics.values()))
    chosen = {"prcl": {"r": 2, "n": 5}} if name == "prcl" else name  # the list is short
    explanation = ready(name).explain(text, chosen)
    assert explanation.docid == ready(name).search(text, rerank=chosen)[0].docid
    assert repr(explanation) == str(explanation)
    assert str(explanation).startswith(f"{name}: {explanation.docid} “")


def test_an_explanation_is_a_nested_list_in_notebooks():
    inner = Contribution("a < b", 1.0)
    page = Explanation("m", "d&1", 1.5, (Contribution("one", 1.0, "why", (inner,)), Contribution("two", 0.5)))._repr_html_()
    assert page == (
        "<p><b>m: d&amp;1 scores 1.5000</b></p><ul><li><code>+1.0000</code> one <small>why</small>"
        "<ul><li><code>+1.0000</code> a &lt; b</li></ul></li><li><code>+0.5000</code> two</li></ul>"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rerank": "pert", "alpha": 0.3}, "alpha: unknown option; did you mean pert_alpha?"),
        ({"pert_alpha": 0.3}, "pert_alpha: has no effect without rerank='pert'"),
        ({"rerank": ["pert", "klsa", "pert"]}, "rerank='pert': given 2 times; a method reranks once"),
        ({"nonsense": 1}, "nonsense: unknown option; known: hits, "),
        ({"rerank": "nonsense"}, "'nonsense' is not one of"),
        ({"rerank": {"pert": {"nonsense": 1}}}, "pert_nonsense: unknown option; known: "),
        ({"rerank": "pert", "pert_alpha": 2}, "pert_alpha: 2.0 is above 1"),
        ({"k": 0}, "k: 0 is below 1"),
    ],
)
def test_bad_options_are_named(tiny, options, message):
    with pytest.raises(OptionError) as problem:
        tiny.search("tap", **options)
    assert message in str(problem.value)


def test_bad_queries_are_named(tiny):
    with pytest.raises(InputError, match="the query has no text"):
        tiny.search("  ")
    with pytest.raises(InputError, match="no document matches 'zebra'"):
        tiny.explain("zebra", "pert")
    with pytest.raises(InputError, match="'d99' is not in"):
        tiny.explain("tap", "pert", "d99")
    with pytest.raises(InputError, match="'d3' is not among the"):
        tiny.explain("dripping", "klsa", "d3", klsa_retrieve=0)


def test_train_makes_later_searches_use_what_was_fitted(ready):
    index = ready("klsa")
    before = index.pipeline("klsa")
    index.train("klsa")
    assert index.pipeline("klsa") is not before
    with pytest.raises(kernelsearch.KernelSearchError, match="rerank='pert': needs no training"):
        index.train("pert")


def test_hits_are_made_when_they_are_looked_at_and_do_what_a_list_does():
    made = []

    def later():
        made.append(1)
        return ["b", "a", "c"]

    hits = Hits(later=later, size=3)
    assert len(hits) == 3 and hits and not made
    assert hits[0] == "b" and hits[-2:] == ["a", "c"] and list(hits) == ["b", "a", "c"] and made == [1]
    hits.sort()
    hits.append("d")
    assert hits == ["a", "b", "c", "d"] and len(hits) == 4 and [*(hits + hits[:1])] == ["a", "b", "c", "d", "a"]
    assert ["z", *hits][:2] == ["z", "a"] and next(reversed(hits)) == "d" and "c" in hits
    assert pickle.loads(pickle.dumps(hits)) == hits and copy.copy(hits) == hits
    with pytest.raises(AttributeError, match="no attribute 'docids'"):
        _ = hits.docids
    assert made == [1]
