"""Altered topics and documents, and source code as a collection (docs/reproductions/kinds.md)."""

from tools.data.altered_topics import misspelled, passages, questions, with_identifiers
from tools.data.source_code import code_topics, in_camel_case

TOPICS = {str(number): "boundary layer transition over heated plates" for number in range(30)}


def test_misspelled_words_keep_their_first_letter_and_differ_in_at_most_one():
    words = [text.split() for text in misspelled(TOPICS).values()]
    own = TOPICS["0"].split()
    pairs = [pair for text in words for pair in zip(text, own, strict=True)]
    assert 0.15 < sum(word != right for word, right in pairs) / len(pairs) < 0.45
    assert all(word[0] == right[0] and abs(len(word) - len(right)) <= 1 for word, right in pairs)


def test_questions_hold_the_topic():
    asked = questions(TOPICS)
    assert all(TOPICS["0"] in text and text != TOPICS["0"] for text in asked.values()) and len(set(asked.values())) > 5


def test_identifiers_are_joined_words():
    documents = [{"id": str(number), "contents": "boundary layer flows past plates"} for number in range(40)]
    texts = [document["contents"] for document in with_identifiers(documents, share=0.5)]
    assert any("boundary_layer" in text for text in texts) and any("boundaryLayer" in text for text in texts)
    assert any(text == "boundary layer flows past plates" for text in texts)


def test_passages_overlap_and_have_the_grade_of_their_document():
    words = [f"w{number}" for number in range(100)]
    documents, judged = passages([{"id": "d", "contents": " ".join(words)}], {"q": {"d": 2, "gone": 1}}, words=40, copies=0.0)
    assert [document["contents"].split()[0] for document in documents] == ["w0", "w20", "w40", "w60"]
    assert documents[0]["contents"].split() == words[:40] and judged == {"q": {document["id"]: 2 for document in documents}}
    assert len(passages([{"id": "d", "contents": " ".join(words)}], {}, words=40, copies=3.0)[0]) > 6


def test_a_function_is_a_document_without_its_docstring(tmp_path):
    body = '    """Reads the whole file at once. Slowly."""\n    text = open_file(name)\n    return text\n'
    (tmp_path / "a.py").write_text(f"def read_file(name):\n{body}\n\ndef tiny(): pass\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "b.py").write_text(f"def other(name):\n{body}")
    documents, topics, qrels = code_topics(tmp_path, 10)
    assert [document["contents"].splitlines()[0] for document in documents] == ["def read_file(name):"]
    assert topics == {"f0": "Reads the whole file at once."} and qrels == {"f0": {"f0": 1}}
    assert "Reads" not in documents[0]["contents"]
    assert in_camel_case(documents)[0]["contents"].startswith("def readFile(name):")
