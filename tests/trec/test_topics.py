import gzip

import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.trec import read_topics

TREC = """<top>
<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that participate.

<narr> Narrative:
A relevant document must name one.
</top>

<top>
<num>302</num>
<title>Poliomyelitis</title>
</top>
"""
CACM = """<DOC>
<DOCNO>
1
</DOCNO>
What articles exist
which deal with TSS?
</DOC>
<DOC>
<DOCNO> 2 </DOCNO>
 Articles by Prieve
</DOC>
"""


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("01\tfirst one\n2\tsecond\ttab\n", {"01": "first one", "2": "second tab"}),
        (TREC, {"301": "International Organized Crime", "302": "Poliomyelitis"}),
        (CACM, {"1": "What articles exist which deal with TSS?", "2": "Articles by Prieve"}),
        ('{"_id": "q1", "text": "beir"}\n{"qid": 7, "query": "plain"}\n', {"q1": "beir", "7": "plain"}),
        ('{"id": 0, "text": 0}\n{"id": 1, "text": null, "query": "x"}\n', {"0": "0"}),
        ("1\ta  no-break\u00a0space \n", {"1": "a no-break\u00a0space"}),
    ],
)
def test_formats_are_recognised(tmp_path, content, expected):
    file = tmp_path / "topics"
    file.write_text(content)
    assert read_topics(file) == expected
    file.write_bytes(gzip.compress(content.encode()))
    assert read_topics(file) == expected


def test_fields_of_a_trec_topic_can_be_joined(tmp_path):
    file = tmp_path / "topics"
    file.write_text(TREC.split("\n\n<top>")[0])
    text = read_topics(file, field="title+description")["301"]
    assert text == "International Organized Crime Identify organizations that participate."
    with pytest.raises(OptionError, match="'summary' is not one of title, description, narrative"):
        read_topics(file, field="summary")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "topics: empty"),
        ("\n\n", "topics: empty"),
        ("1 no tab\n", "line 1: no tab"),
        ("1\t\n2\t \n", "line 1: topic 1 has no text, nor has any other"),
        ("1\ta\n2\t \n2\tb\n", "line 3: topic 2 appears twice"),
        ("1\ta\n1\tb\n", "line 2: topic 1 appears twice"),
        ("\ttext\n", "line 1: a topic without an id"),
        ("a b\ttext\n", "topic id 'a b' has white space"),
        ('{"_id": "1", "text": "x"}\n{broken\n', "line 2, column 2: not valid JSON"),
        ("<top>\n<num> 1\n<title> x\n", "line 1: <top> without </top>"),
        ("<top>\n<num> 1\n<desc> x\n</top>\n", "line 1: topic 1 has no text"),
        ("<DOC>\nx\n</DOC>\n", "line 1: a topic without an id"),
        ("<top>\n<num> 1\n<title> x\n<top>\n<num> 2\n<title> y\n</top>\n", "line 4: <top> within the topic of line 1"),
        ("<DOC>\n<DOCNO>1</DOCNO>\nx\n<DOC>\n<DOCNO>2</DOCNO>\ny\n</DOC>\n", "line 4: <DOC> within the topic of line 1"),
        ("1\ta\r2\tb\r", "its lines end with carriage returns alone"),
        ("1\ta\n\ufeff2\tb\n", "begins with a byte-order mark"),
        ('{"_id": true, "text": "x"}\n', "line 1: the id and the text of a topic must be text"),
        ('{"_id": "1", "text": NaN}\n', "line 1: not valid JSON (NaN is not a finite number)"),
    ],
)
def test_bad_topics_are_named(tmp_path, content, message):
    file = tmp_path / "topics"
    file.write_text(content)
    with pytest.raises(InputError) as caught:
        read_topics(file)
    assert message in str(caught.value) and str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1\ta\n2\t \n3\tb\n", "line 2: topic 2 has no text; it is skipped"),
        ("1\ta\n2\t \n3\tb\n4\t\n", "line 2: topic 2 has no text, nor have 1 others; they are skipped"),
        (
            '{"id": "1", "text": "a"}\n{"id": "2", "text": ""}\n{"id": "3", "text": "b"}',
            "line 2: topic 2 has no text; it is skipped",
        ),
    ],
)
def test_topics_without_text_are_skipped_with_one_warning(tmp_path, caplog, content, message):
    file = tmp_path / "topics"
    file.write_text(content)
    assert read_topics(file) == {"1": "a", "3": "b"}
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: {message} (evaluate counts a judged topic without results as zero)"
    ]


def test_unknown_format():
    with pytest.raises(OptionError, match="topics_format: 'xml' is not one of"):
        read_topics("x", "xml")
