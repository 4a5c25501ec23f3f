"""Readers of documents against Anserini's own collections and ir_datasets, on the same bytes."""

import csv
import html
import json
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_datasets.formats import CsvDocs, TsvDocs

from kernelsearch import index as index_verb
from kernelsearch.integrations.pyserini import KernelSearcher
from kernelsearch.lucene import jvm
from kernelsearch.trec.documents import read_documents

WORDS = (
    "R&amp;D",
    "caf&eacute;",
    "&lt; 5",
    "caf&eacute",
    "&#233;t&#xe9;",
    "&hyph;",
    "&amp;amp;",
    "AT&T",
    "x",
    "tap",
    "\u00a0",
    "\t",
)
MARKS = (
    *(
        "<P>",
        "</P>",
        "<B>bo</B>ld",
        "a<BR>b",
        "<F P=105>f</F>g",
        "<!-- PJG 0012 -->",
        "<![CDATA[c &amp; <d>]]>",
        "<3>",
        "a < b",
    ),
    *(
        "<TABLE><TR><TD>u</TD><TD>v</TD></TR></TABLE>",
        "<script>s</script>",
        "<DATE>1991</DATE>",
        "<TEXT>",
        "</TEXT>",
        "<HEAD>h</HEAD>",
    ),
    *("<TITLE>a <i>b</i></TITLE>", "<H3>", "<LI>i", "<TTL>", "</TTL>"),
)


@pytest.fixture(scope="module")
def anserini(tmp_path_factory):
    """Reads bytes with a collection of Anserini: [(docid, terms)] of its documents."""
    jvm.start()
    from jnius import autoclass

    paths, folder = autoclass("java.io.File"), tmp_path_factory.mktemp("anserini")

    def documents(collection, name, content):
        (folder / name).write_bytes(content)
        reader = autoclass(f"io.anserini.collection.{collection}")(paths(str(folder)).toPath())
        segment = reader.createFileSegment(paths(str(folder / name)).toPath())
        found, every = [], segment.iterator()
        while every.hasNext():
            document = every.next()
            found.append((document.id(), terms(document.contents())))
        segment.close()
        return found

    return documents


def terms(text):
    from jnius import autoclass

    return list(autoclass("io.anserini.analysis.AnalyzerUtils").analyze(text).toArray())


def ours(folder, name, content, **options):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return [(document["id"], terms(document["contents"])) for _, document in read_documents(path, **options)]


LINE = st.lists(st.sampled_from(WORDS + MARKS), max_size=6).map(" ".join) | st.text("<>&;/! \tPab1\u00e9\u2028\r", max_size=20)
ELEMENT = st.builds(
    lambda tag, lines, close: f"<{tag}>" + "\n".join(lines) + (f"</{tag}>" if close else f"\n</{tag}>"),
    st.sampled_from(("TEXT", "HEADLINE", "TITLE", "HL", "HEAD", "TTL", "DD", "DATE", "LP", "LEADPARA", "BYLINE", "SO")),
    st.lists(LINE, max_size=4),
    st.booleans(),
)
BODY = st.lists(ELEMENT | LINE, min_size=1, max_size=6).map("\n".join).filter(lambda text: "<DOC" not in text)


@settings(deadline=None, max_examples=150)
@given(bodies=st.lists(BODY, min_size=1, max_size=3), attribute=st.booleans(), web=st.booleans())
def test_trec_text_has_the_terms_of_anserini(tmp_path_factory, anserini, bodies, attribute, web):
    opening = '<DOC id="d{0}" type="story">\n' if attribute and not web else "<DOC>\n<DOCNO> d{0} </DOCNO>\n"
    header = "<DOCHDR>\nhttp://x <TITLE>no</TITLE>\n</DOCHDR>\n" if web else "<SO>no text</SO>\n"
    content = "".join(f"{opening.format(n)}{header}{body}\n</DOC>\n" for n, body in enumerate(bodies)).encode()
    expected = anserini("TrecwebCollection" if web else "TrecCollection", "file", content)
    assert [docid for docid, _ in expected] == [f"d{n}" for n in range(len(bodies))]
    assert ours(tmp_path_factory.getbasetemp(), "file.trec", content) == expected


@settings(deadline=None, max_examples=100)
@given(texts=st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=4), ascii=st.booleans())
def test_json_has_the_terms_of_anserini(tmp_path_factory, anserini, texts, ascii):
    folder = tmp_path_factory.getbasetemp()
    records = [{"id": str(n), "contents": text} for n, text in enumerate(texts)]
    array = json.dumps(records, ensure_ascii=ascii, indent=1).encode()
    lines = "".join(json.dumps(record, ensure_ascii=ascii) + "\n" for record in records).encode()
    assert ours(folder, "c.json", array) == anserini("JsonCollection", "c.json", array)
    assert ours(folder, "c.jsonl", lines) == anserini("JsonCollection", "c.jsonl", lines)
    beir = [{"_id": str(n), "title": f"Title {n}", "text": f"{text} &amp;"} for n, text in enumerate(texts)]
    lines = "".join(json.dumps(record, ensure_ascii=ascii) + "\n" for record in beir).encode()
    (folder / "beir").mkdir(exist_ok=True)
    assert ours(folder, "beir/corpus.jsonl", lines) == anserini("BeirFlatCollection", "corpus.jsonl", lines)


#: Pages without the elements whose text a browser hides, and with their titles in the head alone.
INLINE = st.sampled_from(("b", "i", "em", "span", "a", "font"))
WORD = st.text(string.ascii_letters + "\u00e9\u00df 5<>&", min_size=1, max_size=8).map(html.escape) | st.sampled_from(
    ("&eacute;", "&eacute ", "&#233;", "&#x2014;", "&hyph;", "a & b", "AT&T", "<!-- c -->", "<br>", "a<br/>b", "&nbsp;")
)
FLOW = st.recursive(
    WORD, lambda inner: st.builds(lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>", INLINE, st.lists(inner, max_size=3))
)
BLOCK = st.builds(
    lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
    st.sampled_from(("p", "div", "h2", "blockquote", "pre", "ul><li", "table><tr><td")),
    st.lists(FLOW, max_size=4),
).map(lambda text: text.replace("</ul><li>", "</li></ul>").replace("</table><tr><td>", "</td></tr></table>"))


@settings(deadline=None, max_examples=150)
@given(blocks=st.lists(BLOCK | FLOW, min_size=1, max_size=6))
def test_html_has_the_terms_of_anserini(tmp_path_factory, anserini, blocks):
    page = f"<html><head><title>Zebra &amp; quagga</title></head><body>{' '.join(blocks)}</body></html>\n".encode()
    [(_, expected)] = anserini("HtmlCollection", "page.html", page)
    [(_, found)] = ours(tmp_path_factory.getbasetemp(), "page.html", page)
    assert found == expected


@pytest.mark.parametrize(("collection", "name", "content", "theirs", "found"), [
    ("TrecCollection", "c.trec", "<doc>\n<docno>1</docno>\n<title>fuse</title>\n<au>a</au>\n</doc>\n", None, "fuse"),
    ("TrecCollection", "c.trec", "<DOC>\n<HL>fuse</HL>\n<DOCNO>1</DOCNO>\n<TEXT>tap</TEXT>\n</DOC>\n", "tap", "fuse tap"),
    ("TrecCollection", "c.trec", "<DOC>\n<DOCNO>1</DOCNO>\ntap &lt; fuse\n</DOC>\n", "", "tap fuse"),
    ("TrecCollection", "c.trec", "<DOC>\n<DOCNO>1</DOCNO>\n<AU>tap</AU>\n</DOC>\n", "", ""),
    ("JsonCollection", "c.jsonl", '{"id": "1", "title": "fuse", "contents": "tap"}\n', "tap", "fuse tap"),
    ("HtmlCollection", "1", "<html><title>tap</title><body>tap &eacute5<svg><text>x</text></svg><select><option>y</select>"
     "<textarea>u</textarea><![CDATA[w]]></body></html>", "tap tap eacute5 xyuw", "tap \u00e95"),
])  # fmt: skip
def test_differences_are_those_of_the_documentation(tmp_path, anserini, collection, name, content, theirs, found):
    assert anserini(collection, name, content.encode()) == ([] if theirs is None else [("1", theirs.split())])
    assert ours(tmp_path, name, content.encode()) == [("1", found.split())]


class Download:
    """A file as ir_datasets has it after a download."""

    def __init__(self, path):
        self._path = path

    def path(self, force=True):
        return str(self._path)

    def stream(self):
        return open(self._path, "rb")


#: Without separators of lines: ir_datasets ends the row of a CSV file at each of them.
CELL = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"))).map("5 {}".format)


@settings(deadline=None, max_examples=100)
@given(texts=st.lists(CELL, min_size=1, max_size=4))
def test_tables_have_the_texts_of_ir_datasets(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "c.tsv"
    path.write_text("".join(f"d{n}\t{text}\n" for n, text in enumerate(texts)), newline="")
    expected = [(document.doc_id, document.text) for document in TsvDocs(Download(path)).docs_iter()]
    assert [(document["id"], document["contents"]) for _, document in read_documents(path)] == expected
    path = path.with_suffix(".csv")
    with open(path, "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows([("id", "text"), *((f"d{n}", text) for n, text in enumerate(texts))])
    expected = [(document.doc_id, document.text) for document in CsvDocs(Download(path)).docs_iter()]
    assert [(document["id"], document["contents"]) for _, document in read_documents(path)] == expected


def test_lists_of_a_trec_collection_are_those_of_anserini_to_the_last_digit(tmp_path, anserini):
    """The file is indexed by IndexCollection, as Pyserini's commands call it, and by the verb; one document has no text."""
    from jnius import autoclass

    random, documents = np.random.default_rng(7), []
    for number in range(80):
        text, title = (" ".join(random.choice([*WORDS, *MARKS[:9], "fuse", "lt", "amp", "washer"], size)) for size in (40, 4))
        parts = f"<HL>{title}</HL>\n<TEXT>\n{text}\n</TEXT>" if number != 5 else "<BYLINE>washer fuse</BYLINE>"
        documents.append(f"<DOC>\n<DOCNO> WSJ-{number} </DOCNO>\n<SO>washer</SO>\n{parts}\n</DOC>\n")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "wsj").write_text("".join(documents))
    flags = ["-collection", "TrecCollection", "-input", tmp_path / "source", "-index", tmp_path / "theirs", "-threads", "1"]
    arguments, words = autoclass("io.anserini.index.IndexCollection$Args")(), autoclass("java.util.ArrayList")()
    for flag in [*flags, "-generator", "DefaultLuceneDocumentGenerator", "-storeDocvectors", "-quiet"]:
        words.add(str(flag))
    autoclass("org.kohsuke.args4j.CmdLineParser")(arguments).parseArgument(words)
    autoclass("io.anserini.index.IndexCollection")(arguments).run()
    index_verb.main(["--input", str(tmp_path / "source" / "wsj"), "--index", str(tmp_path / "ours")])
    found, expected = (
        KernelSearcher(tmp_path / "ours"),
        autoclass("io.anserini.search.SimpleSearcher")(str(tmp_path / "theirs")),
    )
    assert found.num_docs == expected.get_total_num_docs() == 79
    for setting in ("set_rm3", "set_qld", "unset_rm3"):
        for query in ("fuse washer", "caf\u00e9 R&D", "lt amp", "AT&T", "bold tap d"):
            lists = [[(hit.docid, hit.score) for hit in searcher.search(query, 100)] for searcher in (found, expected)]
            assert lists[0] and lists[0] == lists[1]
        getattr(found, setting)()
        getattr(expected, setting)(*([1000.0] if setting == "set_qld" else []))
