import pytest

import kernelsearch
from kernelsearch.api.results import highlight, make_snippet, matching_words, stored_texts

TEXT = "Sofa care\nVacuum it weekly. " + "Keep it out of the sun. " * 20 + "Torn upholstery is repaired with a patch. The end."


def test_the_window_with_most_of_the_words_is_shown():
    shown = make_snippet(TEXT, {"upholstery", "repaired"}, 80)
    assert shown.startswith("Sofa care: … ") and "Torn upholstery is repaired" in shown and len(shown) <= 80


def test_without_a_match_the_beginning_is_shown():
    assert make_snippet(TEXT, set(), 50) == "Sofa care: Vacuum it weekly. Keep it out of the …"
    assert make_snippet("one line only", set(), 50) == "one line only"
    assert make_snippet("", {"x"}, 50) == ""


@pytest.mark.parametrize("width", [20, 30, 47, 60, 200])
def test_a_snippet_is_no_wider_than_its_space(width):
    title = "Smoke pours back into the living room"
    shown = make_snippet(f"{title}\nOpen the damper. If it smokes only in wind, a cap may help.", {"smokes"}, width)
    assert len(shown) <= width
    if width < len(title):  # cut between words
        assert title.startswith(shown.removesuffix(" …")) and title[len(shown.removesuffix(" …"))] == " "
    else:
        assert shown.startswith(title) and ("smokes" in shown) == (width >= 60)


def test_words_match_as_the_analyser_makes_them(tiny):
    query = tiny.query("leaking washers")
    assert matching_words(tiny.lucene, query, ["Leaks, a washer.", "Nothing else leaked"]) == {"leaks", "leaked", "washer"}


@pytest.mark.parametrize(
    "text",
    [
        "The tap's washer",
        "set foo_bar twice",
        "see example.com.",
        "a hose of 3,5 metres",
        "hose,washer",
        "हिन्दी में खोज।",
        "tap, (sink)",
    ],
)
def test_words_are_bounded_as_by_lucenes_tokenizer(text, tiny):
    # Every term of the text, asked for alone, marks exactly one word, whose analysis is that term.
    for term in tiny.lucene.analyze([text])[0]:
        (word,) = matching_words(tiny.lucene, tiny.query(term), [text])
        assert tiny.lucene.analyze([word]) == [[term]]
        assert highlight(text, {word}, "[]").count("[") == 1


def test_highlight_marks_whole_words():
    assert highlight("A tap, taps; Tap!", {"tap"}, "[]") == "A [tap], taps; [Tap]!"


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, ["Kitchen\nA dripping tap."] * 2),
        ({"contents": False}, ["Kitchen\nA dripping tap."] * 2),
        ({"contents": False, "raw": False}, ["", ""]),
    ],
)
def test_texts_are_those_of_the_contents_or_of_the_record(tmp_path, flags, expected):
    records = [{"id": name, "title": "Kitchen", name: "A dripping tap."} for name in ("contents", "text")]
    index = kernelsearch.build(tmp_path / "index", records, **flags)
    assert stored_texts(index.lucene, [0, 1]) == expected
    assert ("A dripping tap." in str(index.search("dripping"))) == any(expected)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ('{"_id": "1", "title": "Tap", "text": "It drips.", "metadata": {}}', "Tap\nIt drips."),
        ('{"id": "1", "contents": "It drips.", "title": "Tap"}', "It drips."),
        ("<DOC>\n<DOCNO>1</DOCNO>\nIt drips.\n</DOC>", "<DOC>\n<DOCNO>1</DOCNO>\nIt drips.\n</DOC>"),
        ("[1, 2]", ""),
        ('{"id": "1"}', ""),
        (None, ""),
    ],
)
def test_records_of_other_programs(record, text):
    class Stored:
        def stored(self, docs, field):
            return [record if field == "raw" else None for _ in docs]

    assert stored_texts(Stored(), [0]) == [text]
