import gzip
import json
import re
import sys
from datetime import date

import pytest

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.trec import collection_files, documents, formats
from kernelsearch.trec.documents import make_document, parse_columns, read_documents


def read(path, kind=None, encoding="utf-8"):
    return [document for _, document in read_documents(path, kind, encoding)]


def test_jsonl_keeps_other_fields_and_makes_ids_strings(tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": 1, "contents": "x", "title": "t", "year": 1999, "tags": ["a"]}\n\n{"_id": "b", "text": "body"}\n')
    assert read(file) == [
        {"id": "1", "contents": "t\nx", "title": "t", "year": 1999, "tags": ["a"]},
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


def test_columns_without_a_name_may_be_several(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text("id,text,,\n1,a,,\n")
    assert [document["contents"] for document in read(file)] == ["a"]


def test_tsv_without_header_takes_quotes_as_text(tmp_path):
    file = tmp_path / "c.tsv"
    file.write_text('7\tsays "hello\n8\tx\n')
    assert read(file) == [{"id": "7", "contents": 'says "hello'}, {"id": "8", "contents": "x"}]


def test_tsv_of_a_spreadsheet_has_quoted_cells_below_its_header(tmp_path):
    file = tmp_path / "c.tsv"
    file.write_text('Id\tText\n1\t"Tap ""A"", dripping"\n2\tsays "hello"\n3\t"Tap" A "drips"\n')
    assert [document["contents"] for document in read(file)] == ['Tap "A", dripping', 'says "hello"', '"Tap" A "drips"']


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("c.jsonl", "", "no documents in it"),
        ("c.tsv", 'id\ttext\n1\t"two\nlines"\n', "line 3: 1 columns, 2 were expected; --format csv reads quoted cells"),
        (
            "c.json",
            '{"docs": [{"id": "1", "text": "x"}]}\n',
            "if docs is the list of documents, jq '.docs' FILE > NEW.json extracts it",
        ),
        ("c.jsonl", '{"id": "1", "contents": "x"}\n{"id": \n', "line 2, column 8: not valid JSON"),
        ("c.jsonl", '["x"]\n', "line 1: a JSON object was expected"),
        ("c.jsonl", '{"contents": "x"}\n', "line 1: a document without an id"),
        ("c.jsonl", '{"id": "a b", "contents": "x"}\n', "document id 'a b' has white space"),
        ("c.jsonl", '{"id": "1"}\n', "document 1 has no text"),
        ("c.jsonl", '{"id": "1", "contents": 5}\n', "document 1: contents has the type int, a text was expected"),
        ("c.csv", "id,text\n1,a,b\n", "line 2: 3 columns, 2 were expected"),
        ("c.csv", "\nid,text,Text \n1,a,b\n", "line 2: 2 columns are called 'text'; rename or remove all but one"),
        ("c.tsv", "id\tid\ttext\n1\t2\tb\n", "line 1: 2 columns are called 'id'"),
        ("c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n", "line 1: <DOC> without </DOC>"),
        ("c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n<DOC>\n<DOCNO>2</DOCNO>\n</DOC>\n", "line 3: <DOC> within the document of line 1"),
        ("c.trec", "<DOC>\nx\n</DOC>\nstray\n", "line 1: a document without an id"),
    ],
)
def test_bad_documents_are_named(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file)
    written = caught.value.message(Flag.on_command_line)
    assert message in written and str(file) in written


def test_missing_and_empty_places(tmp_path):
    with pytest.raises(InputError, match="gone: no such file or folder"):
        read(tmp_path / "gone")
    with pytest.raises(InputError, match="an empty folder"):
        read(tmp_path)
    with pytest.raises(OptionError, match="format: 'docx'"):
        (tmp_path / "x").write_text("x")
        read(tmp_path / "x", "docx")


@pytest.mark.parametrize(
    ("title", "contents", "expected"),
    [
        ("Zebra crossing", "Replace the washer", "Zebra crossing\nReplace the washer"),
        ("Zebra crossing", "zebra  CROSSING, repainted", "zebra  CROSSING, repainted"),
        ("FC Porto", "Futebol Clube do Porto (FC Porto)", "Futebol Clube do Porto (FC Porto)"),
        ("art", "a quick start", "art\na quick start"),
        ("C++ (draft)", "The C++ (draft) standard", "The C++ (draft) standard"),
        ("", "x", "x"),
    ],
)
def test_a_title_is_joined_unless_the_contents_have_it(tmp_path, title, contents, expected):
    file = tmp_path / "c.jsonl"
    file.write_text(json.dumps({"id": "1", "title": title, "contents": contents}))
    assert [document["contents"] for document in read(file)] == [expected]
    apart = [document for _, document in read_documents(file, join_titles=False)]
    assert apart == [{"id": "1", "contents": contents, "title": title}]


def test_titles_apart_from_beir_texts(tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "title": "T", "text": "body"}\n')
    documents = [document for _, document in read_documents(tmp_path, join_titles=False)]
    assert documents == [{"id": "1", "contents": "body", "title": "T", "text": "body"}]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiters_are_found(tmp_path, delimiter):
    file = tmp_path / "c.csv"
    rows = [["id", "title", "contents"], ["1", '"a, b; c"', "words"]]
    file.write_text("\n".join(delimiter.join(row) for row in rows))
    assert read(file) == [{"id": "1", "contents": "a, b; c\nwords", "title": "a, b; c"}]


def read_columns(path, kind=None, **columns):
    return [document for _, document in read_documents(path, kind, columns=columns)]


def test_columns_are_named(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text("Document_Number;id;Headline;Body\n7;x;Zebra;stripes\n")
    documents = read_columns(file, id="document_number", contents="body", title="headline")
    assert documents == [{"id": "7", "contents": "Zebra\nstripes", "title": "Zebra"}]
    lines = tmp_path / "c.jsonl"
    lines.write_text('{"n": 7, "Body": "stripes", "year": 1999}')
    assert read_columns(lines, id="n", contents="Body") == [{"id": "7", "contents": "stripes", "year": 1999}]
    with pytest.raises(InputError, match="line 2: no 'text', which columns names, among document_number, id, headline, body"):
        read_columns(file, id="document_number", contents="text")
    with pytest.raises(
        InputError, match=r"line 1: no column of ids .* among document_number, headline, body, .*header; .*columns id="
    ):
        file.write_text("document_number,headline,body\n7,Zebra,stripes\n")
        read(file)


@pytest.mark.parametrize(
    ("name", "content", "documents"),
    [
        ("c.jsonl", '{"text": "a"}\n{"id": "x", "text": "b", "_id": "y"}\n', [{"contents": "a"}, {"contents": "b"}]),
        ("c.json", '[{"contents": "a"}, {"contents": "b"}]', [{"contents": "a"}, {"contents": "b"}]),
        ("c.csv", "title,text\nT,a\n", [{"contents": "T\na", "title": "T"}]),
        ("c.csv", "docid,text\n7,a\n", [{"contents": "a"}]),
        ("c.csv", "text\na\nb\n", [{"contents": "a"}, {"contents": "b"}]),
        ("c.tsv", "first text\nsecond text\n", [{"contents": "first text"}, {"contents": "second text"}]),
        ("c.txt", "one page", [{"contents": "c\none page", "title": "c"}]),
    ],
)
def test_documents_are_numbered(tmp_path, name, content, documents):
    file = tmp_path / name
    file.write_text(content)
    numbered = [document for _, document in read_documents(file, number_documents=True)]
    for document in numbered:
        document.pop("text", None)
    assert numbered == [{"id": str(number), **document} for number, document in enumerate(documents, 1)]


def test_numbers_go_on_from_file_to_file(tmp_path):
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"id": "same", "contents": "x"}\n{"contents": "y"}\n')
    assert [document["id"] for _, document in read_documents(tmp_path, number_documents=True)] == ["1", "2", "3", "4"]


def test_numbering_with_named_columns(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text("headline;story\nZebra;stripes\n")
    columns = {"contents": "Story", "title": "headline"}
    [(_, document)] = read_documents(file, columns=columns, number_documents=True)
    assert document == {"id": "1", "contents": "Zebra\nstripes", "title": "Zebra"}
    with pytest.raises(
        InputError, match=r"line 1: no column of texts \(contents, .*\) among headline, story, .*columns contents="
    ):
        list(read_documents(file, number_documents=True))
    with pytest.raises(OptionError, match="number_documents: the ids are those of 'headline', which columns names"):
        list(read_documents(file, columns={"id": "headline"}, number_documents=True))


@pytest.mark.parametrize("header", ["title,text", "text,label", "Contents,x"])
def test_a_header_of_two_columns_without_ids_is_no_document(tmp_path, header):
    file = tmp_path / "c.csv"
    file.write_text(f"{header}\na,b\n")
    with pytest.raises(InputError, match=r"line 1: no column of ids .* among .*columns id=NAME.*number_documents"):
        read(file)
    file.write_text("17,text\n18,title\n")
    assert [document["contents"] for document in read(file)] == ["text", "title"]


def test_a_document_without_an_id_names_the_flag_that_numbers(tmp_path):
    file = tmp_path / "c.jsonl"
    file.write_text('{"id": "1", "contents": "x"}\n{"contents": "y"}\n')
    with pytest.raises(InputError, match=r"c.jsonl: line 2: a document without an id .*columns id=.*number_documents"):
        read(file)


@pytest.mark.parametrize("text", ["id", "id=", "url=x", "=x"])
def test_bad_columns(text):
    with pytest.raises(OptionError, match="columns: "):
        parse_columns([text])


def test_json_array(tmp_path):
    file = tmp_path / "c.json"
    file.write_text('\n[\n {"id": 1, "contents": "x"},\n {"id": 2, "contents": "y"}]\n')
    assert [place for place, _ in read_documents(file)] == [f"{file}: item 1", f"{file}: item 2"]
    assert [document["id"] for document in read(file)] == ["1", "2"]
    file.write_text('{"id": 1, "contents": "x"}\n{"id": 2, "contents": "y"}\n')
    assert [document["id"] for document in read(file)] == ["1", "2"]
    file.write_text('{"key": 1, "contents": "x", "authors": [{"name": "a"}]}\n')  # a document, no envelope
    assert [document["id"] for _, document in read_documents(file, columns={"id": "key"})] == ["1"]
    file.write_text('[{"id": 1, "contents": "x"}, 5]')
    with pytest.raises(InputError, match="item 2: a JSON object was expected"):
        read(file)
    file.write_text('[{"id": 1,')
    with pytest.raises(InputError, match="not valid JSON"):
        read(file)


def test_parquet_with_two_columns_of_one_name(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.Table.from_arrays([pyarrow.array([text]) for text in ("1", "a", "b")], names=["id", "text", "text"])
    parquet.write_table(table, tmp_path / "c.parquet")
    with pytest.raises(InputError, match=r"c\.parquet: 2 columns are called 'text'"):
        read(tmp_path / "c.parquet")


def test_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")

    table = pyarrow.table({"id": [1, 2], "contents": ["x", "y"], "title": ["t", None], "day": [date(2024, 5, 1), None]})
    parquet.write_table(table, tmp_path / "c.parquet")
    assert read(tmp_path / "c.parquet") == [
        {"id": "1", "contents": "t\nx", "title": "t", "day": date(2024, 5, 1)},
        {"id": "2", "contents": "y"},
    ]
    parquet.write_table(table, tmp_path / "c.parquet", store_schema=False)
    bad_name = (tmp_path / "c.parquet").read_bytes().replace(b"contents", b"c\xe5ntents")
    for content in (b"PAR1 and nothing more", bad_name):
        (tmp_path / "c.parquet").write_bytes(content)
        with pytest.raises(InputError, match=r"c\.parquet: damaged, not a valid Parquet file"):
            read(tmp_path / "c.parquet")


def test_pages_in_a_folder_are_documents(tmp_path):
    (tmp_path / "deep er").mkdir()
    (tmp_path / "a note.txt").write_text("Turn the water off.")
    (tmp_path / "b.md").write_text("---\nlayout: page\n---\n```\n# no heading\n```\n# Dripping tap #\nwasher\n")
    (tmp_path / "deep er" / "c.html").write_text(
        "<!DOCTYPE html><html><head><title>Blown\n fuse</title><style>p {color: red}</style><script>if (a < b) x()</script>"
        "<body><h1>Fuses</h1><p>Caf&eacute; <b>fau</b>lt<p>second<ul><li>one<li>two</ul><pre>x\ny</pre><!-- hidden -->"
    )
    assert read(tmp_path) == [
        {"id": "a_note.txt", "contents": "a note\nTurn the water off.", "title": "a note"},
        {"id": "b.md", "contents": "```\n# no heading\n```\n# Dripping tap #\nwasher", "title": "Dripping tap"},
        {
            "id": "deep_er/c.html",
            "contents": "Blown fuse\nFuses\n\nCafé fault\nsecond\n\none\ntwo\n\nx\ny",
            "title": "Blown fuse",
        },
    ]


def test_html_in_its_own_encoding(tmp_path):
    (tmp_path / "c.html").write_bytes('<meta charset="iso-8859-1"><h1>Müller</h1>“x”'.encode("cp1252"))
    assert read(tmp_path / "c.html") == [{"id": "c.html", "contents": "Müller\n“x”", "title": "Müller"}]
    (tmp_path / "c.html").write_bytes(b'<meta charset="klingon"><h1>x</h1>')
    with pytest.raises(InputError, match="declares the encoding 'klingon'"):
        read(tmp_path / "c.html")
    # As browsers do: what was found as ASCII is not in UTF-16.
    (tmp_path / "c.html").write_bytes('<meta charset="utf-16"><h1>Müller</h1>'.encode())
    assert read(tmp_path / "c.html")[0]["title"] == "Müller"
    (tmp_path / "c.html").write_bytes(b'<meta charset="utf-32"><h1>x</h1>')
    with pytest.raises(InputError, match=r"c\.html: declares the encoding 'utf-32', which can't be read"):
        read(tmp_path / "c.html")


def write_pdf(path, text):
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body, offsets = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(body))
    path.write_bytes(body + trailer)


def test_pdf(tmp_path):
    pytest.importorskip("pypdf")
    write_pdf(tmp_path / "dripping-tap.pdf", "Replace the washer")
    expected = {"id": "dripping-tap.pdf", "contents": "dripping tap\nReplace the washer", "title": "dripping tap"}
    assert read(tmp_path / "dripping-tap.pdf") == [expected]
    (tmp_path / "dripping-tap.pdf").write_bytes(b"%PDF-1.4 cut short")
    with pytest.raises(InputError, match="not a valid PDF"):
        read(tmp_path / "dripping-tap.pdf")


def test_a_format_is_one_module(tmp_path, monkeypatch):
    """Its extension, how its files begin and its reader are found in a module of the package, without a second place."""
    (tmp_path / "format").mkdir()
    (tmp_path / "format" / "cards.py").write_text(
        "from kernelsearch.trec.formats import Format\n"
        "def read(path, encoding):\n"
        "    for number, line in enumerate(path.read_text(encoding).split('%%')[1:], 1):\n"
        "        yield f'card {number}', dict(zip(('id', 'text'), line.strip().split(':', 1)))\n"
        "FORMAT = Format('cards', read, suffixes=('.card',), begins='%%')\n"
    )
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path / "format")])
    for module in (collection_files, documents):
        monkeypatch.setattr(module, "FORMATS", collection_files.find_formats())
    for name in ("a.card", "without-suffix"):
        (tmp_path / name).write_text("%%a: one\n%%b: two\n")
        assert [(record["id"], record["contents"]) for record in read(tmp_path / name)] == [("a", " one"), ("b", " two")]
    with pytest.raises(InputError, match="card 1: a document without an id"):
        (tmp_path / "bad.card").write_text("%%:\n")
        read(tmp_path / "bad.card")


@pytest.mark.parametrize(("name", "package"), [("c.pdf", "pypdf"), ("c.parquet", "pyarrow")])
def test_a_missing_package_is_named(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / name).write_bytes(b"%PDF" if package == "pypdf" else b"PAR1")
    with pytest.raises(OptionError, match=r"a (PDF|Parquet file).* pip install .*\[(pdf|parquet)\]"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.docx", b"PK\x03\x04word", "a document of Word"),
        ("x", b"\x89PNG\r\n", "an image"),
        ("x.bin", b"a\0b", "a binary file"),
        ("x.bz2", b"BZh9", "a bzip2 file"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, what):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: .*{what}.* can't be read"):
        read(tmp_path / name)
    with pytest.raises(InputError, match=rf"no files of a format that can be read in it, but {name}"):
        read(tmp_path)


def test_a_mixed_folder_says_what_is_taken(tmp_path, capsys):
    (tmp_path / "corpus-1.jsonl").write_text('{"id": "1", "contents": "a long text, longer than the others"}\n')
    (tmp_path / "qrels.txt").write_text("1 0 1 1\n")
    (tmp_path / "topics.tsv").write_text("1\tx\n")
    (tmp_path / "logo.png").write_bytes(b"\x89PNG\r\n")
    assert [document["id"] for document in read(tmp_path)] == ["1"]
    message = capsys.readouterr().err
    assert f"{tmp_path}: taken are corpus-1.jsonl; left out are logo.png, qrels.txt, topics.tsv" in message
    assert [document["id"] for document in read(tmp_path, "tsv")] == ["1"]
    with pytest.raises(InputError, match="no html files in it, but corpus-1"):
        read(tmp_path, "html")


def test_an_index_among_the_documents_is_no_document(tmp_path):
    (tmp_path / "b.jsonl").write_text('{"id": "1", "contents": "x"}\n')
    for place, name in (("index", "segments_1"), ("sharded", "shards.json"), ("sharded/shard-0", "segments_a")):
        (tmp_path / place / "kernelsearch").mkdir(parents=True)
        (tmp_path / place / name).write_text("{}")
        (tmp_path / place / "kernelsearch" / "meta.json").write_text('{"kind": "forward index", "version": 1}\n' * 9)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text('{"id": "2", "contents": "y"}\n')
    assert [document["id"] for document in read(tmp_path)] == ["1", "2"]


def test_windows_1252_is_advised_and_read(tmp_path):
    file = tmp_path / "sheet.csv"
    file.write_bytes('id;title;contents\n1;Café;"He said ""stop"";\nthen left – 5 €"\n'.encode("cp1252"))
    with pytest.raises(InputError, match=r"line 2, column 6: not valid UTF-8 \(byte 0xe9\); encoding .* windows-1252$"):
        read(file)
    contents = 'Café\nHe said "stop";\nthen left – 5 €'
    assert read(file, encoding="windows-1252") == [{"id": "1", "contents": contents, "title": "Café"}]


def test_a_byte_order_mark_precedes_other_encodings(tmp_path):
    (tmp_path / "c.jsonl").write_bytes('{"id": "1", "contents": "naïve – 5 €"}\n'.encode("utf-8-sig"))
    assert read(tmp_path / "c.jsonl", encoding="windows-1252") == [{"id": "1", "contents": "naïve – 5 €"}]
    page = '<html><head><meta charset="%s"><title>Café</title></head><body>naïve</body></html>'
    for declared in ("utf-16", "windows-1252", "utf-8"):
        (tmp_path / "c.html").write_bytes((page % declared).encode("utf-8-sig"))
        assert read(tmp_path / "c.html") == [{"id": "c.html", "contents": "Café\nnaïve", "title": "Café"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"number": "1", "words": "x"}', "without an id .* found number, words.; --columns id=NAME,contents=NAME"),
        ('{"id": "1", "words": "x"}', "document 1 has no text .* found id, words.; --columns contents=NAME"),
    ],
)
def test_keys_of_a_record_without_id_or_text_are_named(tmp_path, content, message):
    file = tmp_path / "c.jsonl"
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read(file)
    assert re.search(message, caught.value.message(Flag.on_command_line))


def test_doc_id_is_an_id(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text("doc_id,text\n7,washer\n")
    assert read(file) == [{"id": "7", "contents": "washer", "text": "washer"}]


def test_a_quote_that_is_not_closed_is_named(tmp_path):
    file = tmp_path / "c.csv"
    file.write_text('id,contents\n1,"never closed\n2,b\n')
    with pytest.raises(InputError, match="line 3: a quoted cell is not closed"):
        read(file)


def test_unreadable_files_of_a_folder_can_be_left_out(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("Replace the washer.")
    (tmp_path / "b.txt").write_bytes("Frühstück".encode("cp1252"))
    with pytest.raises(InputError, match=r"b\.txt.*; skip_unreadable leaves it out"):
        read(tmp_path)
    documents = list(read_documents(tmp_path, skip_unreadable=True))
    assert [document["id"] for _, document in documents] == ["a.txt"]
    assert "b.txt: line 1, column 3" in caplog.text and caplog.text.rstrip().endswith("left out")
    # A file that was named itself is not skipped.
    with pytest.raises(InputError, match=r"windows-1252$"):
        list(read_documents(tmp_path / "b.txt", skip_unreadable=True))


def test_a_damaged_text_file_of_a_folder_is_no_file_of_another_kind(tmp_path, caplog):
    (tmp_path / "a.txt").write_text("Replace the washer.")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"The washer. " * 1000)[:30])
    with pytest.raises(InputError, match=r"b\.txt\.gz: damaged gzip file .*; skip_unreadable leaves it out"):
        read(tmp_path)
    documents = list(read_documents(tmp_path, skip_unreadable=True))
    assert [document["id"] for _, document in documents] == ["a.txt"]
    assert "b.txt.gz: damaged gzip file" in caplog.text


@pytest.mark.parametrize(
    ("record", "contents"),
    [
        ({"id": 1, "title": "Tap", "contents": ["Turn it", "off"]}, "Tap\nTurn it\noff"),
        ({"id": 1, "title": ["Tap", "faucet"], "text": "off"}, "Tap\nfaucet\noff"),
        ({"id": 1, "title": "Tap", "contents": None}, "Tap\n"),
        ({"id": 1, "title": None, "text": "off"}, "off"),
    ],
)
def test_lists_of_texts_and_nulls(record, contents):
    assert make_document(record, "here")["contents"] == contents


def test_values_of_nested_objects(tmp_path):
    file = tmp_path / "hits.jsonl"
    file.write_text('{"_id": 7, "_source": {"Title": "Tap", "body": {"text": "Turn it off"}}}\n')
    columns = {"id": "_id", "contents": "_source.body.text", "title": "_source.title"}
    [(_, document)] = read_documents(file, columns=columns)
    assert (document["id"], document["contents"]) == ("7", "Tap\nTurn it off") and document["_source"]["body"]
    with pytest.raises(InputError, match=r"no '_source\.none', which columns names, among _id, _source"):
        list(read_documents(file, columns={"contents": "_source.none"}))
    file.write_text('{"id": 7, "body": {"lang": 3, "text": "Turn it off"}}\n')
    advice = r"document 7: body is an object \(lang, text\), a text was expected; columns contents=body\.text names"
    with pytest.raises(InputError, match=advice):
        list(read_documents(file))
    assert [document["contents"] for _, document in read_documents(file, columns={"contents": "body.text"})] == ["Turn it off"]


def test_one_object_over_several_lines(tmp_path):
    file = tmp_path / "export.json"
    file.write_text('{\n "total": 1,\n "documents": [\n  {"id": 1, "text": "a"}\n ]\n}\n')
    with pytest.raises(InputError, match=r"one JSON object over several lines \(total, documents\).*jq '\.documents' FILE"):
        list(read_documents(file))
    file.write_text('{\n "id": 1,\n "text": "a"\n}\n')
    with pytest.raises(InputError, match=r"one JSON object over several lines \(id, text\).*jq -c"):
        list(read_documents(file))


def test_ids_that_a_table_made_floats():
    ids = [make_document({"id": value, "text": "a"}, "here")["id"] for value in (7.0, 7.5, 7, "7.0")]
    assert ids == ["7", "7.5", "7", "7.0"]
