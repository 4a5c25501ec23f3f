from kernelsearch.api.snippets import highlight, make_snippet, matching_words

TEXT = "Sofa care\nVacuum it weekly. " + "Keep it out of the sun. " * 20 + "Torn upholstery is repaired with a patch. The end."


def test_the_window_with_most_of_the_words_is_shown():
    shown = make_snippet(TEXT, {"upholstery", "repaired"}, 80)
    assert shown.startswith("Sofa care: … ") and "Torn upholstery is repaired" in shown and len(shown) <= 80


def test_without_a_match_the_beginning_is_shown():
    assert make_snippet(TEXT, set(), 50) == "Sofa care: Vacuum it weekly. Keep it out of the …"
    assert make_snippet("one line only", set(), 50) == "one line only"
    assert make_snippet("", {"x"}, 50) == ""


def test_words_match_as_the_analyser_makes_them(tiny):
    query = tiny.query("leaking washers")
    assert matching_words(tiny, query, ["Leaks, a washer.", "Nothing else leaked"]) == {"leaks", "leaked", "washer"}


def test_highlight_marks_whole_words():
    assert highlight("A tap, taps; Tap!", {"tap"}, "[]") == "A [tap], taps; [Tap]!"
