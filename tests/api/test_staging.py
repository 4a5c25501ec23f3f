"""Staged documents are what Anserini can read: one odd record must not cost the others."""

import json
import math

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.api.build import Built
from kernelsearch.api.staging import stage_documents
from kernelsearch.core.errors import InputError, JavaError
from kernelsearch.lucene.build import build_index
from kernelsearch.trec.documents import make_document


def write(path, *odd):
    """A collection of six documents with an odd line in the middle."""
    plain = [json.dumps({"id": f"d{n}", "contents": f"water tap{n}"}) for n in range(6)]
    path.write_text("\n".join([*plain[:2], *odd, *plain[2:]]) + "\n", encoding="utf-8")
    return path


def test_values_of_the_caller_stay_as_they_are(tmp_path):
    nested = {"deep": [math.inf, 1.5], "pair": (math.nan, 2)}
    index = kernelsearch.build(tmp_path / "i", [{"id": "1", "contents": "a tap", "nested": nested, "pair": (math.nan, "x")}])
    stored = json.loads(index.search("tap")[0].raw)
    assert stored["nested"] == {"deep": [None, 1.5], "pair": [None, 2]} and stored["pair"] == [None, "x"]
    assert nested["deep"] == [math.inf, 1.5] and math.isnan(nested["pair"][0])


def test_numbers_that_json_lacks_are_stored_as_null_and_no_document_is_lost(tmp_path, capsys):
    odd = (
        '{"id": "odd", "contents": "water", "price": NaN, "nested": [Infinity, {"deep": 1e999, "fine": 1.5}], '
        '"big": 12345678901234567890}'
    )
    index_verb.main(["--input", str(write(tmp_path / "c.jsonl", odd)), "--index", str(tmp_path / "i")])
    assert "3 numbers that JSON doesn't have (NaN, Infinity) are stored as null" in capsys.readouterr().err
    index = kernelsearch.open(tmp_path / "i")
    hits = index.search("water", k=10)
    assert sorted(hit.docid for hit in hits) == ["d0", "d1", "d2", "d3", "d4", "d5", "odd"]
    stored = json.loads(index.lucene.stored(index.forward.rows_of(["odd"]), "raw")[0])
    assert stored["price"] is None and stored["nested"] == [None, {"deep": None, "fine": 1.5}]
    assert stored["big"] == 12345678901234567890


@pytest.mark.parametrize(("odd", "message"), [
    ('{"id": "odd", "contents": "water", "n": ' + "9" * 1001 + "}", r"line 3: an integer \(n\) of more than 1000 digits"),
    ('{"id": "odd", "contents": "water", "' + "k" * 50_001 + '": 1}', r"line 3: a key of 50001 characters \(k{40}\.\.\.\)"),
    ('{"id": "odd", "contents": "' + "w " * 10_000_001 + '"}', r"line 3: a text of 20000002 characters \(contents\)"),
    ('{"id": "' + "x" * 32_767 + '", "contents": "water"}', r"line 3: document id 'x{10,}.* has more than 32766 bytes"),
    ('{"id": "' + "ü" * 16_384 + '", "contents": "water"}', r"line 3: document id 'ü{10,}.* has more than 32766 bytes"),
], ids=["integer", "key", "text", "docid", "docid in bytes"])  # fmt: skip
def test_a_record_beyond_the_limits_is_refused_by_line(tmp_path, odd, message):
    with pytest.raises(InputError, match=message):
        index_verb.main(["--input", str(write(tmp_path / "c.jsonl", odd)), "--index", str(tmp_path / "i")])
    assert not (tmp_path / "i").exists()


def test_records_at_the_limits_are_indexed(tmp_path):
    odd = [
        '{"id": "integer", "contents": "water", "n": -' + "9" * 1000 + "}",
        '{"id": "key", "contents": "water", "' + "k" * 50_000 + '": 1}',
        '{"id": "' + "x" * 32_766 + '", "contents": "water"}',
        '{"id": "deep", "contents": "water", "nested": ' + "[" * 99 + "]" * 99 + "}",
    ]
    index_verb.main(["--input", str(write(tmp_path / "c.jsonl", *odd)), "--index", str(tmp_path / "i")])
    assert len(kernelsearch.open(tmp_path / "i").forward) == 10


def test_documents_that_anserini_gives_up_on_are_an_error(tmp_path):
    (tmp_path / "staged").mkdir()
    write(tmp_path / "staged" / "000.jsonl", '{"id": "odd", "contents": "water", "price": NaN}')
    with pytest.raises(JavaError, match=r"i: Anserini indexed [0-6] of 7 documents and gave up on the others"):
        build_index(tmp_path / "staged", tmp_path / "i", total=7)


def test_the_text_that_contents_were_made_of_is_not_called_stored_only(tmp_path):
    documents = [make_document({"doc_id": "1", "body": "washer", "headline": "Tap"}, "row 1")]
    staged = stage_documents(
        lambda: ((f"row {n}", doc) for n, doc in enumerate(documents)), tmp_path, fields=(), threads=1, whole=False
    )
    assert staged.stored == ("headline",)
    built = Built(staged.count, 0, (), stored=staged.stored)
    expected = "1 document; queries search contents; stored only: headline (columns title=NAME makes one of them the title)"
    assert str(built) == expected
