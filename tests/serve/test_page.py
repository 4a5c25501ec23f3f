"""The page in a real browser, against a server process on the bundled collection."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.vectors.__main__ import main as vectors_verb
from tests.conftest import DEMO, write_jsonl
from tests.serve.browser import CONTRAST, INVENTED, TEXTS, UNREACHABLE, choose, chromium, keys, programs, serving

pytestmark = pytest.mark.page

QUERY, TOPIC = "outdoor faucet leaking", "d02"
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=2</script> pump &amp; <b>seal</b>'
#: A complete state of the page; names and values have characters that must be escaped in an address.
STATE = {
    "index": "a&b",
    "query": "50% off + more?",
    "topic": "7",
    "hits": 50,
    "first": {"k1": 1.5, "rm3": True},
    "columns": [{"method": "mslm", "options": {"semantic": "0.5,1", "step": 2, "mix": 0.25}}],
    "open": {"docid": "d#1/2", "column": 1, "view": "similar"},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, request):
    programs()
    folder = tmp_path_factory.mktemp("page") / "copy"
    shutil.copytree(request.getfixturevalue("fitted"), folder)
    records = [
        {"id": "a/../<i>", "title": HOSTILE, "contents": HOSTILE},
        {"id": "plain", "title": "Pump", "contents": "A pump with a worn seal.", "note": HOSTILE},
        {"id": "other", "contents": "Seals of a pump and a valve"},
        {"id": "toString", "contents": "a constructor"},
    ]
    index_verb.main(["--input", str(write_jsonl(folder / "hostile.jsonl", records)), "--index", str(folder / "hostile")])
    shutil.copytree(folder / "demo", folder / "vectors")
    vectors = ["--index", str(folder / "vectors"), "--vectors", "mine", "--query-vectors", str(add_vectors(folder / "vectors"))]
    demo = ["--index", str(folder / "demo"), "--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    clicks = ["--clicks", str(folder / "clicks.db"), "--record-clicks"]
    with serving(*demo, *clicks, "--index", str(folder / "hostile"), *vectors, "--timeout", "60") as address:
        yield address


def add_vectors(path: Path) -> Path:
    """Gives an index vectors called mine; returns a file with the vector of QUERY."""
    forward, random = kernelsearch.open(path).forward, np.random.default_rng(5)
    docids = forward.docids.take(forward.live_docs)
    np.savez(path / "v.npz", ids=np.array(docids), vectors=random.standard_normal((len(docids), 8)))
    np.savez(path / "q.npz", ids=np.array([QUERY]), vectors=random.standard_normal((1, 8)))
    vectors_verb(["--index", str(path), "--name", "mine", "--input", str(path / "v.npz")])
    return path / "q.npz"


@pytest.fixture(scope="module")
def browser(server, tmp_path_factory):
    with chromium(server, tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture
def page(browser):
    """The page, with a clean console before and after the test."""
    browser.plain()
    yield browser
    assert browser.console_errors() == []


@pytest.fixture
def failing_page(browser):
    """The page where requests fail on purpose; the browser logs those in its console."""
    browser.plain()
    yield browser
    browser.plain()


def test_a_typed_query_is_compared_side_by_side(page):
    page.open()
    page.driver.find_element("css selector", "body").send_keys("/")
    page.focused.send_keys(QUERY, keys("ENTER"))
    before, auto, klsa = (page.ranked(query=QUERY, **more) for more in ({}, {"rerank": "auto"}, {"rerank": "klsa"}))
    page.shows(before, auto, klsa)
    assert [mark.text for mark in page.all("#list-0 li:first-child .hit-title mark")] == ["faucet", "leaks"]
    moved = page.ask("/v1/demo/search", query=QUERY, rerank="auto")["candidates"]
    signs = [
        text.split()[1] for text in page.js("return [...document.querySelectorAll('#list-1 .rank')].map((r) => r.innerText)")
    ]
    assert signs == [
        "=" if entry["moved"] == 0 else f"{'▲' if entry['moved'] > 0 else '▼'}{abs(entry['moved'])}" for entry in moved
    ]
    page.wait(lambda: len(page.all("#lines path")) == len(set(before) & set(auto)) + len(set(auto) & set(klsa)))
    drawn = {line.get_attribute("data-docid") for line in page.all("#lines path.rose")}
    assert {entry["docid"] for entry in moved if (entry["moved"] or 0) > 0 and entry["before"] <= 10} <= drawn


def test_suggestions_come_from_the_click_log(page):
    page.open()
    page.element("#query").send_keys("leak")
    wanted = [entry["query"] for entry in page.ask("/v1/demo/suggest", prefix="leak", limit=8)["suggestions"]]
    page.wait(lambda: [element.text for element in page.all("#suggestions li span")] == wanted)
    page.focused.send_keys(keys("ARROW_DOWN"), keys("ARROW_DOWN"), keys("ENTER"))
    page.wait(lambda: "q=" in page.driver.current_url)
    assert page.element("#query").get_attribute("value") == wanted[1]
    assert page.all("#suggestions:not([hidden])") == []


def test_topics_add_measures_and_judgements(page):
    page.open(q="roof", m="pert")
    assert page.all(".measures") == []
    choose(page.element("#topic"), TOPIC)
    answers = {place: page.ask("/v1/demo/search", query=QUERY, topic=TOPIC, **more)
            for place, more in enumerate(({}, {"rerank": "pert"}))}  # fmt: skip
    page.shows(*([entry["docid"] for entry in answer["candidates"]] for answer in answers.values()))
    for place, answer in answers.items():
        for name, value in answer["measures"].items():
            shown = page.text(f"#column-{place} [data-measure='{name}'] dd").split()
            assert shown[0] == f"{value:.3f}"
            change = value - answers[0]["measures"][name]
            assert place == 0 or shown[1] == "=" or float(shown[1].replace("−", "-")) == pytest.approx(change, abs=6e-4)
        grades = [(entry["grade"] or 0) > 0 for entry in answer["candidates"]]
        marked = page.js(
            f"return [...document.querySelectorAll('#list-{place} .hit')].map((h) => !!h.querySelector('.relevant'))"
        )
        assert marked == grades
    assert f"topic={TOPIC}" in page.driver.current_url


def test_a_slider_reranks_and_its_value_is_in_the_address(page):
    page.open(q=QUERY, m="klsa")
    slider = page.element("[data-option='klsa.z'] input")
    assert page.text("[data-option='klsa.z'] output") == "auto"
    slider.send_keys(keys("HOME"), *[keys("ARROW_RIGHT")] * 60)
    z = int(page.text("[data-option='klsa.z'] output"))
    assert z == 5  # 200 ** (60 / 200)
    page.shows(page.ranked(query=QUERY), page.ranked(query=QUERY, rerank="klsa", **{"klsa.z": z}))
    page.wait(lambda: f"m=klsa%7Ez%3D{z}" in page.driver.current_url)
    page.element("#column-1 .reset").click()
    page.shows(page.ranked(query=QUERY), page.ranked(query=QUERY, rerank="klsa"))
    assert page.text("[data-option='klsa.z'] output") == "auto"
    page.element("[data-option='b'] input").send_keys(keys("END"))
    page.shows(page.ranked(query=QUERY, b=1), page.ranked(query=QUERY, rerank="klsa", b=1))


def test_sliders_stay_within_bounds_and_start_at_the_defaults(page):
    page.open()
    about = page.ask("/v1/methods")
    numbers = [
        option
        for owner in (*about["methods"], {"options": about["first_stage"]})
        for option in owner["options"]
        if option["type"] in ("integer", "number") and not option["many"] and option["default"] is not None
    ]
    assert len(numbers) > 40
    for option, reach in zip(numbers, page.module("ranges.js", "a[0].map(m.reach)", numbers), strict=True):
        assert (option["low"] or 0) <= reach["least"] <= option["default"] <= reach["most"] <= option["high"], option[
            "parameter"
        ]
    shown = page.module(
        "controls.js", "a[0].map((o) => m.control(o, undefined, () => {}).querySelector('output').textContent)", numbers
    )
    assert [float(text) for text in shown] == pytest.approx([option["default"] for option in numbers], rel=1e-3)


@pytest.mark.parametrize(
    ("method", "drawn"),
    [
        ("klsa", ".drawing .chosen"),
        ("pert", ".drawing .own"),
        ("mslm", ".pyramid .heat-9"),
        ("rbm25", ".figures tbody tr"),
        ("auto", ".drawing .bar-up"),
    ],
)
def test_explanations_are_drawn(page, method, drawn):
    page.open(q=QUERY, m=method)
    docid = page.columns()[1][0]
    page.element("#list-1 .hit").click()
    answer = page.ask("/v1/demo/explain", query=QUERY, rerank=method, docid=docid)["explanation"]
    page.wait(lambda: page.all(drawn))
    bars = page.js(
        "return [...document.querySelectorAll('.level.outermost > li')].map((li) => li.querySelector('.bar-value').textContent)"
    )
    values = [float(bar.replace("−", "-")) for bar in bars[: min(12, len(answer["contributions"]))]]
    assert values == pytest.approx([part["value"] for part in answer["contributions"][:12]], rel=0.01, abs=1e-4)
    assert float(page.text(".sum strong")) == pytest.approx(answer["score"], rel=1e-3)
    if method == "klsa":
        assert len(page.all(".drawing circle.listed, .drawing circle.chosen")) >= 10
    if method == "rbm25":
        assert [row.text for row in page.all(".figures .link")] == [
            entry["query"] for entry in answer["notes"]["similar queries"]
        ]
    first = page.element(".level.outermost summary") if method != "auto" else None
    if first:
        first.click()
        page.wait(lambda: page.all(".level:not(.outermost) .bar-line"))


def test_the_first_stage_is_explained_by_term(page):
    page.open(q=QUERY, m="klsa")
    docid = page.columns()[0][1]
    page.all("#list-0 .hit")[1].click()
    parts = page.ask("/v1/demo/explain", query=QUERY, docid=docid)["explanation"]["contributions"]
    page.wait(lambda: len(page.all(".level.outermost .bar-value")) == len(parts))
    values = [float(bar.text) for bar in page.all(".level.outermost .bar-value")]
    assert values == pytest.approx([part["value"] for part in parts], abs=0.006)
    hit = next(entry for entry in page.ask("/v1/demo/search", query=QUERY)["candidates"] if entry["docid"] == docid)
    assert float(page.text(".sum strong")) == pytest.approx(hit["score"], abs=6e-4)
    labels = [label.text.split("\n") for label in page.all(".level.outermost .bar-label")]
    assert [label[0] for label in labels] == ["outdoor", "leaking", "faucet"]
    assert labels[0][1] == "1 time here, in 9 of 364 documents, idf 3.6486, length 56 (average 59.2)"
    assert labels[2][1].startswith("not here, in 11 of 364 documents, idf 3.4576")
    page.element("[data-option='b'] input").send_keys(keys("END"))
    score = page.ask("/v1/demo/explain", query=QUERY, docid=docid, b=1)["score"]
    page.wait(lambda: float(page.text(".sum strong")) == pytest.approx(score, abs=6e-4))


def test_a_slider_changes_the_open_explanation(page):
    page.open(q=QUERY, m="klsa", doc="hr282", **{"in": 1})
    before = page.text(".sum strong")
    page.element("[data-option='klsa.lambda'] input").send_keys(keys("HOME"))
    answer = page.ask("/v1/demo/explain", query=QUERY, rerank="klsa", docid="hr282", **{"klsa.lambda": 0})["score"]
    page.wait(lambda: float(page.text(".sum strong")) == pytest.approx(answer, rel=1e-3))
    assert page.text(".sum strong") != before


def test_similar_documents_open_and_are_explained(page):
    page.open(q=QUERY, m="klsa", doc="hr282", **{"in": 1})
    page.element("#view-similar").click()
    wanted = page.ask("/v1/demo/similar/hr282", hits=10)["candidates"]
    page.wait(
        lambda: (
            [element.get_attribute("data-docid") for element in page.all(".similar .hit")]
            == [entry["docid"] for entry in wanted]
        )
    )
    page.element(".similar summary").click()
    why = page.ask("/v1/demo/similar/hr282", other=wanted[0]["docid"])["explanation"]
    page.wait(lambda: float(page.text(".similar .sum strong")) == pytest.approx(why["score"], rel=1e-3))
    page.element(".similar .hit").click()
    page.wait(lambda: page.text("#panel-title") == wanted[0]["doc"]["title"])
    assert f"doc={wanted[0]['docid']}" in page.driver.current_url


def test_clicks_are_recorded_only_with_consent(page):
    def log():
        return page.ask("/v1/indexes")["indexes"][0]["clicks"]

    query = "a query that nobody has asked about a leaking tap"
    start = log()
    page.open(q=query, m="klsa")
    assert not page.element("#record").is_selected()
    page.element("#list-1 .hit").click()
    page.settled()
    assert log() == start
    page.element("#record").click()
    hits = page.all("#list-1 .hit")
    for place, clicks in ((1, 1), (2, 2)):
        page.click(hits[place])
        page.wait(lambda clicks=clicks: log()["clicks"] == start["clicks"] + clicks)
    assert log() == {"queries": start["queries"] + 1, "impressions": start["impressions"] + 1, "clicks": start["clicks"] + 2}
    assert page.ask("/v1/demo/suggest", prefix="a query that")["suggestions"] == [
        {"query": query, "clicks": 2, "impressions": 1}
    ]
    answer = page.ask("/v1/demo/explain", query=query, rerank="rbm25")["explanation"]["notes"]["similar queries"]
    assert query in [entry["query"] for entry in answer]  # rbm25 learns from what was just clicked


def test_the_switch_is_hidden_where_nothing_is_recorded(page):
    page.before_each_page(
        "const real = window.fetch; window.fetch = async (path, more) => { const answer = await real(path, more);"
        " if (path !== 'v1/indexes') return answer; const listed = await answer.json();"
        " listed.indexes.forEach((index) => { index.recording = false; }); return new Response(JSON.stringify(listed)); };"
    )
    page.open(q=QUERY, m="klsa")
    assert page.all("#consent:not([hidden])") == []


def test_hostile_texts_and_queries_stay_text(page):
    page.open(index="hostile", q=f"pump seal {HOSTILE}", m="klsa", hits=20)
    assert set(page.columns()[0]) == {"a/../<i>", "plain", "other"}
    titles = page.js("return [...document.querySelectorAll('#list-0 .hit-title')].map((t) => t.textContent)")
    assert HOSTILE in titles
    for docid in ("a/../<i>", "plain"):
        page.click(next(element for element in page.all("#list-1 .hit") if element.get_attribute("data-docid") == docid))
        for view in ("why", "text", "similar"):
            page.element(f"#view-{view}").click()
            page.settled()
            assert page.all("#panel .notice") == []
    page.element("#view-text").click()
    page.wait(lambda: HOSTILE in page.js("return document.querySelector('#panel-body').textContent"))
    assert page.all("main img, main b, main i, main script, main iframe") == []
    assert page.js("return window.hacked") is None
    assert page.element("#query").get_attribute("value").endswith(HOSTILE)


def test_terms_and_docids_with_the_names_of_javascripts_own_properties_are_shown(page):
    page.open(index="hostile", q="constructor", m="klsa")
    for number in range(2):
        page.click(page.element(f"#list-{number} .hit"))
        page.settled()
        page.wait(lambda: page.all(".level.outermost .bar-label"))
        assert "function" not in page.js("return document.querySelector('#panel').textContent")
    page.click(page.element("#list-0 .hit"))
    page.wait(lambda: [label.text.split("\n")[0] for label in page.all(".level.outermost .bar-label")] == ["constructor"])


def test_everything_comes_from_the_server_itself(page):
    page.open(q=QUERY, m="klsa", doc="hr282", **{"in": 1})
    loaded = page.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(loaded) > 20 and all(name.startswith(page.server) for name in loaded)


def test_the_keyboard_is_enough(page):
    page.open(q=QUERY, m=["klsa", "pert"])
    before, klsa = page.columns()[:2]
    page.element("#query").send_keys(keys("ARROW_DOWN"))
    assert page.focused.get_attribute("data-docid") == before[0]
    page.focused.send_keys(keys("ARROW_DOWN"))
    page.focused.send_keys(keys("ARROW_RIGHT"))
    place = (
        page.focused.find_element("xpath", "ancestor::ol").get_attribute("data-column"),
        page.focused.get_attribute("data-docid"),
    )
    assert place == ("1", before[1] if before[1] in klsa else klsa[1])
    assert page.js("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.focused.send_keys(keys("ENTER"))
    page.wait(lambda: page.focused.get_attribute("id") == "panel-title")
    page.focused.send_keys(keys("ESCAPE"))
    page.wait(lambda: page.focused.get_attribute("data-docid") == place[1])
    assert page.all("#panel:not([hidden])") == []
    page.focused.send_keys("?")
    assert page.element("#help").is_displayed()
    page.focused.send_keys(keys("ESCAPE"))
    page.wait(lambda: not page.element("#help").is_displayed())
    controls = ".top :is(button, select, input), #column-1 :is(button.icon, select, input)"
    names = [element.accessible_name for element in page.all(controls) if element.is_displayed()]
    assert len(names) > 10 and all(names)


def test_methods_are_added_changed_and_removed_and_back_undoes_it(page):
    page.open(q=QUERY, m="none")
    before = page.ranked(query=QUERY)
    page.shows(before)
    choose(page.element("#add"), "pert")
    page.shows(before, page.ranked(query=QUERY, rerank="pert"))
    choose(page.element("#column-1 .method"), "klsa")
    page.shows(before, page.ranked(query=QUERY, rerank="klsa"))
    page.driver.back()
    page.shows(before, page.ranked(query=QUERY, rerank="pert"))
    page.element("#column-1 .icon").click()
    page.shows(before)
    assert "m=none" in page.driver.current_url


def test_an_address_holds_the_whole_view(page):
    methods = ["klsa~z=5~lambda=0.5", "klsa~retrieve=0"]
    opened = {"doc": "hr267", "in": 2, "view": "text"}
    page.open(q=QUERY, topic=TOPIC, hits=20, first="k1=2~rm3=true", m=methods, **opened)
    shared = {"query": QUERY, "k1": 2, "rm3": "true", "hits": 20}
    asked = ({}, {"rerank": "klsa", "klsa.z": 5, "klsa.lambda": 0.5}, {"rerank": "klsa", "klsa.retrieve": 0})
    answers = [page.ask("/v1/demo/search", **shared, **more) for more in asked]
    page.shows(*([entry["docid"] for entry in answer["candidates"]] for answer in answers))
    assert page.text("#view-text[aria-selected=true]") == "Text"
    assert page.text("#column-0 .summary") == "BM25 + RM3"
    assert page.text("[data-option='klsa.z'] output") == "5"
    assert page.module("state.js", "m.fromSearch('?query=tap').query") == "tap"  # the parameter of the API
    once, twice = page.module(
        "state.js", "[0, 1].map((more) => m.toSearch(m.fromSearch(more ? m.toSearch(a[0]) : a[1])))", STATE, ""
    )
    assert (once, twice) == ("", page.module("state.js", "m.toSearch(a[0])", STATE))


@pytest.mark.parametrize(("status", "message"), [(503, "busy"), (504, "longer than the server allows"), (400, "invented")])
def test_failures_are_shown_where_they_happen(failing_page, status, message):
    page = failing_page
    page.before_each_page(INVENTED % ("rerank=klsa", status))
    page.open(q=QUERY, m=["klsa", "pert"])
    assert message in page.text("#column-1 .notice") and page.element("#column-1 .notice").get_attribute("role") == "alert"
    assert len(page.all("#list-0 .hit")) == len(page.all("#list-2 .hit")) == 10
    if status != 400:  # a refused request is refused again: nothing to try
        page.js("window.fails = false")
        page.element("#column-1 .notice button").click()
        page.shows(page.ranked(query=QUERY), page.ranked(query=QUERY, rerank="klsa"), page.ranked(query=QUERY, rerank="pert"))


def test_an_unreachable_server_is_reported(failing_page):
    page = failing_page
    page.open(q=QUERY, m="klsa")
    page.js(UNREACHABLE)
    page.element("#query").send_keys(" now", keys("ENTER"))
    page.wait(lambda: "can't be reached" in page.text("#column-0 .notice"))
    page.before_each_page(UNREACHABLE)
    page.driver.refresh()
    page.wait(lambda: "can't be reached" in page.text("#problem .notice"))


def test_a_key_is_asked_for_where_the_server_wants_one(failing_page):
    page = failing_page
    page.before_each_page(
        "const real = window.fetch; window.fetch = (path, more) => more?.headers?.['x-api-key'] === 'sesame' ? real(path, more)"
        ' : Promise.resolve(new Response(\'{"error": "an API key is needed"}\', {status: 401}));'
    )
    page.driver.get(f"{page.server}/?q=roof&m=klsa")
    page.wait(lambda: page.element("#key").is_displayed())
    page.element("#key-value").send_keys("sesame", keys("ENTER"))
    page.shows(page.ranked(query="roof"), page.ranked(query="roof", rerank="klsa"))
    assert "sesame" not in page.driver.current_url + page.js("return JSON.stringify(localStorage) + document.cookie")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_layout_and_contrast(page, tmp_path, width, theme):
    """No sideways scrolling, contrast of WCAG's AA; screenshots are saved in KERNELSEARCH_SCREENSHOTS."""
    folder = Path(os.environ.get("KERNELSEARCH_SCREENSHOTS") or tmp_path)
    page.size(width, 900 if width > 500 else 860, theme)
    view = {"q": QUERY, "topic": TOPIC, "m": ["klsa~z=5", "rbm25"]}
    for name, opened in (("lists", {}), ("reasons", {"doc": "hr282", "in": 1})):
        page.open(**view, **opened)
        assert page.js("return document.documentElement.scrollWidth") <= width
        assert page.js("return getComputedStyle(document.documentElement).colorScheme") == "light dark"
        poor = [result for result in page.js(CONTRAST, TEXTS) if result[0] < 4.5]
        assert poor == []
        assert page.driver.save_screenshot(str(folder / f"{name}-{width}-{theme}.png"))
        visible = [element for element in page.all(".column") if element.is_displayed()]
        assert len(visible) == (3 if width > 500 else 1)
    if width < 500:
        page.element("#panel-close").click()
        page.element("#tab-2").click()
        assert page.element("#column-2").is_displayed() and not page.element("#column-0").is_displayed()
    else:
        page.element("#theme").click()
        other = "light" if theme == "dark" else "dark"
        page.driver.refresh()
        assert page.js("return document.documentElement.dataset.theme") == other


def test_explanations_are_in_a_searchers_words(page):
    page.open(q=QUERY, m=["auto", "klsa", "pert"], doc="hr267", **{"in": 1})
    page.wait(lambda: page.all(".level.outermost .bar-label"))
    labels = [label.text.split("\n")[0] for label in page.all(".level.outermost .bar-label")]
    assert "match in the title" in labels and "likeness to the 20 best documents" in labels
    assert not any(":" in label or "=" in label for label in labels)
    answer = page.ask("/v1/demo/explain", query=QUERY, rerank="auto", docid="hr267")
    notes = answer["explanation"]["notes"]
    parts = [float(row.text.replace("−", "-")) for row in page.all(".decision .bar-value")]
    assert parts == pytest.approx(list(notes["decision"]["parts"].values()), rel=0.01, abs=0.001)
    note = page.text(".decision .note")
    assert f"{len(notes['feedback']['documents'])} documents" in note and answer["titles"][notes["certainty"]["docid"]] in note
    feedback = notes["feedback"]["documents"]
    assert [row.text for row in page.all(".feedback .link")] == [answer["titles"][entry["docid"]] for entry in feedback[:8]]
    shares = [int(row.text.rstrip("%")) for row in page.all(".feedback .bar-value")]
    assert shares == [round(100 * entry["weight"]) for entry in feedback[:8]]
    page.open(q=QUERY, m=["auto", "klsa"], doc="hr267", **{"in": 2})
    page.wait(lambda: page.all(".drawing .chosen"))
    names = [name.text for name in page.all(".drawing .name")]
    assert "query" in names and any(name.startswith("Air conditioner") for name in names)
    assert not any(name.startswith("hr") for name in names)
    page.open(q=QUERY, m="pert", doc="hr267", **{"in": 1})
    page.wait(lambda: page.all(".drawing .own"))
    names = {name.text for name in page.all(".drawing .name")}
    assert names & {"single", "outdoors", "leaks"} and not names & {"singl", "insid"}
    assert page.text("[data-option='pert.alpha'] label") == "share of added words (α)"


def test_shares_of_words_and_vectors_are_shown(page):
    page.open(index="vectors", q=QUERY, m="auto")
    docid = page.columns()[1][0]
    page.element("#list-1 .hit").click()
    explanation = page.ask("/v1/vectors/explain", query=QUERY, rerank="auto", docid=docid)["explanation"]
    evidence, feedback = explanation["notes"]["evidence"], explanation["notes"]["feedback"]["documents"]
    assert sum(evidence.values()) == pytest.approx(explanation["score"], abs=2e-4) and len(evidence) == 3
    note = "".join(page.text(".feedback + .note").split("Of the score, ")[1:])
    shown = {kind: float(value.replace("−", "-")) for value, kind in re.findall(r"(\S+) came from ([a-z ]+)", note)}
    assert shown == pytest.approx(evidence, rel=0.005, abs=0.006)  # three digits
    likeness = [re.findall(r"by words (\S+), by vectors (\S+)", row.text)[0] for row in page.all(".feedback li small")]
    expected = [(entry["words"], entry["vectors"]) for entry in feedback[: len(likeness)]]
    assert [[float(part.replace("−", "-")) for part in pair] for pair in likeness] == pytest.approx(
        np.array(expected), rel=0.01, abs=0.006
    )
    # The same query on the index without vectors says nothing about them.
    page.open(q=QUERY, m="auto", doc=page.ranked(query=QUERY, rerank="auto")[0], **{"in": 1})
    page.wait(lambda: page.all(".feedback li"))
    assert "vectors" not in page.text(".feedback") + page.text(".feedback + .note")


def test_compact_lists_show_more_hits(page):
    page.open(q=QUERY, m="klsa")
    tall = page.js("return document.querySelector('#list-0').offsetHeight")
    page.element("#compact").click()
    assert page.js("return document.querySelector('#list-0').offsetHeight") < 0.65 * tall
    assert not page.element("#list-0 .snippet").is_displayed()
    page.driver.refresh()
    page.settled()
    assert page.element("#compact").is_selected() and not page.element("#list-0 .snippet").is_displayed()


def test_an_index_that_is_not_there_is_named(page):
    page.open(index="nosuch", q="tap", m="none")
    assert "no index “nosuch”" in page.text("#problem .notice")
    page.shows(page.ranked(query="tap"))
    page.open(index="demo", q="tap", m="none")
    assert page.all("#problem .notice") == []


def test_an_empty_list_offers_what_to_try(page):
    page.open(q="dripqqq zzzzzz", m="none")
    assert "No document contains a word" in page.text("#list-0")
    page.wait(lambda: [chip.text for chip in page.all("#list-0 .chip")][:2] == ["dripqqq", "zzzzzz"])
    logged = [entry["query"] for entry in page.ask("/v1/demo/suggest", prefix="dri", limit=6)["suggestions"]]
    page.wait(lambda: [chip.text for chip in page.all("#list-0 .chip")][2:] == logged)
    page.all("#list-0 .chip")[2].click()
    page.wait(lambda: len(page.all("#list-0 .hit")) == 10)


def test_options_are_folded_away_on_a_narrow_screen(page):
    page.size(400, 860)
    page.open(q=QUERY, m="klsa")
    places = [page.element(selector) for selector in (".toolbar", "#column-0 .settings")]
    assert not any(place.is_displayed() for place in places)
    assert page.js("return document.querySelector('#list-0 .hit').getBoundingClientRect().top") < 300
    page.element("#fold").click()
    assert all(place.is_displayed() for place in places)
    assert page.element("#fold").get_attribute("aria-expanded") == "true"


def test_the_api_is_described_on_a_page(page):
    page.driver.get(f"{page.server}/docs")
    page.wait(lambda: len(page.all(".opblock")) >= 15)
    loaded = page.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(name.startswith((page.server, "data:")) for name in loaded)
