import gzip
import json

import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.trec.documents import read_documents


def read(path, kind=None, encoding="utf-8"):
    return [document for _, document in read_documents(path, kind, encoding)]


def test_jsonl_keeps_other_fields_and_makes_ids_strings(tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": 1, "contents": "x", "title": "t", "year": 1999, "tags": ["a"]}\n\n{"_id": "b", "text": "body"}\n')
    assert read(file) == [
        {"id": "1", "contents": "x", "title": "t", "year": 1999, "tags": ["a"]},
        {"id": "b", "contents": "body", "text": "body"},
    ]


def test_beir_folder_joins_title_and_text(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "T", "text": "body", "metadata": {}}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "not a document"}\n')
    assert [document["contents"] for document in read(tmp_path)] == ["T\nbody"]


def test_folder_of_gzipped_files_in_name_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(gzip.compress(json.dumps({"id": name, "contents": "x"}).encode()))
    assert [document["id"] for document in read(tmp_path)] == ["a", "b"]


def test_trec_text(tmp_path):
    file = tmp_path / "ft911"
    file.write_text(
        "<DOC>\n<DOCNO> FT911-3 </DOCNO>\n<HEADLINE>A head\nline</HEADLINE>\n<BYLINE>nobody</BYLINE>\n"
        "<TEXT>\n<P>Body</P> text\n</TEXT>\n"
        "</DOC>\n<DOC>\n<DOCNO>2</DOCNO>\nbare text\n</DOC>\n"
    )
    first, second = read(file)
    assert first["id"] == "FT911-3" and first["title"] == "A head line"
    assert first["contents"].split() == ["A", "head", "line", "Body", "text"]
    assert second == {"id": "2", "contents": "bare text"}


def test_csv_with_header_quotes_and_line_breaks(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text('id,title,text,price\n1,"A, b","two\nlines",3.5\n')
    assert read(file) == [{"id": "1", "contents": "A, b\ntwo\nlines", "title": "A, b", "text": "two\nlines", "price": "3.5"}]


def test_tsv_without_header_takes_quotes_as_text(tmp_path):
    file = tmp_path / "c.tsv"
    file.write_text('7\tsays "hello\n8\tx\n')
    assert read(file) == [{"id": "7", "contents": 'says "hello'}, {"id": "8", "contents": "x"}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", "", "no documents in it"),
        ("c.jsonl", '{"id": "1", "contents": "x"}\n{"id": \n', "line 2: not valid JSON"),
        ("c.jsonl", '["x"]\n', "line 1: a JSON object was expected"),
        ("c.jsonl", '{"contents": "x"}\n', "line 1: a document without an id"),
        ("c.jsonl", '{"id": "a b", "contents": "x"}\n', "document id 'a b' is empty or has white space"),
        ("c.jsonl", '{"id": "1"}\n', "document 1 has no text"),
        ("c.jsonl", '{"id": "1", "contents": 5}\n', "title and contents must be text"),
        ("c.csv", "id,text\n1,a,b\n", "line 2: 3 columns, 2 were expected"),
        ("c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n", "line 1: <DOC> without </DOC>"),
        ("c.trec", "<DOC>\nx\n</DOC>\nstray\n", "line 1: a document without an id"),
    ],
)
def test_bad_documents_are_named(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file)
    assert message in str(caught.value) and str(file) in str(caught.value)


def test_missing_and_empty_places(tmp_path):
    with pytest.raises(InputError, match="gone: no such file or folder"):
        read(tmp_path / "gone")
    with pytest.raises(InputError, match="an empty folder"):
        read(tmp_path)
    with pytest.raises(OptionError, match="--format: 'pdf'"):
        (tmp_path / "x").write_text("x")
        read(tmp_path / "x", "pdf")
