"""Preference pairs, extracted by hand from a few lists."""

import numpy as np
import pytest

from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.pairs import preferences
from kernelsearch.clicks.records import Impression, Tally
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError, OptionError


@pytest.fixture()
def log(tmp_path):
    lists = [
        Impression("q", ("a", "b", "c", "d"), (1, 2, 3, 4), (False, True, False, True)),
        Impression("q", ("b", "a", "e"), (1, 2, 3), (False, True, False)),
        Impression("q", ("a", "b", "c"), (1, 2, 3), (False, True, False)),
        Impression("other", ("a", "b"), (1, 2), (True, False)),
        Impression("silent", ("a", "b"), (1, 2), (False, False)),
    ]
    import_records(lists, tmp_path / "c.db")
    return ClickLog(tmp_path / "c.db")


def docid_pairs(log, result):
    return list(zip(log.query_texts(result.queries), log.docids(result.better), log.docids(result.worse), strict=True))


def ask(log, *texts, **options):
    return preferences(log, log.query_ids(texts), **options)


def test_clicked_over_shown_but_never_clicked(log):
    # clicks: b 2, a 1, d 1; never clicked: c (shown twice at 3: exposure 2/3), e (1/3)
    assert docid_pairs(log, ask(log, "q")) == [
        ("q", "b", "c"),
        ("q", "a", "e"),
        ("q", "d", "c"),
        ("q", "b", "e"),
        ("q", "a", "c"),
        ("q", "d", "e"),
    ]


def test_the_limit_keeps_the_best_supported_and_queries_keep_their_order(log):
    result = ask(log, "other", "silent", "q", limit=2)
    assert docid_pairs(log, result) == [("other", "a", "b"), ("q", "b", "c"), ("q", "a", "e")]


def test_clicked_over_skipped_above_needs_more_lists_for_than_against(log):
    # list 1: b>a, d>a, d>c; list 2: a>b; list 3: b>a. Net: b>a 1, d>a 1, d>c 1.
    assert sorted(docid_pairs(log, ask(log, "q", kind="skipped"))) == [("q", "b", "a"), ("q", "d", "a"), ("q", "d", "c")]
    assert docid_pairs(log, ask(log, "other", kind="skipped")) == []


def test_click_rates_give_an_order(log):
    # rates: d 1/1, b 2/3, a 1/3, c 0, e 0
    result = docid_pairs(log, ask(log, "q", kind="rate", limit=100))
    assert set(result) == {("q", x, y) for x, y in ["db", "da", "dc", "de", "ba", "bc", "be", "ac", "ae"]}
    assert result[0] == ("q", "d", "e")


def test_click_counts_give_an_order_where_impressions_are_not_counted(tmp_path):
    import_records([Tally("q", "a", 9, 0, 1.0), Tally("q", "b", 2, 0, 6.0), Tally("q", "c", 2, 0, 1.0)], tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    assert set(docid_pairs(log, ask(log, "q", kind="rate"))) == {("q", "a", "b"), ("q", "a", "c")}
    # Two clicks at position 6 count twelve: b moves ahead of a.
    assert set(docid_pairs(log, ask(log, "q", kind="rate", corrected=True))) == {
        ("q", "b", "a"),
        ("q", "b", "c"),
        ("q", "a", "c"),
    }
    with pytest.raises(InputError, match="need lists"):
        ask(log, "q", kind="skipped")


def test_weights_are_inverse_propensities_with_mean_one(log):
    plain, corrected = ask(log, "q"), ask(log, "q", corrected=True)
    assert plain.weights.tolist() == [1] * 6
    by_doc = dict(zip(log.docids(corrected.better), corrected.weights, strict=True))
    # mean click positions: a 2, b 2, d 4
    assert by_doc["d"] / by_doc["a"] == pytest.approx(2) and by_doc["a"] == pytest.approx(by_doc["b"])
    assert np.mean(corrected.weights) == pytest.approx(1)


def test_confidence_is_the_difference_of_clicks_a_look(log):
    # exposure: a 1 + 1/2 + 1, b 1/2 + 1 + 1/2, c 1/3 + 1/3, d 1/4, e 1/3; four clicks in all; one look at the mean is added.
    looks = {"a": 2.5, "b": 2.0, "c": 2 / 3, "d": 0.25, "e": 1 / 3}
    mean = 4 / sum(looks.values())
    rate = {name: (clicks + mean) / (looks[name] + 1) for name, clicks in {"a": 1, "b": 2, "c": 0, "d": 1, "e": 0}.items()}
    result = ask(log, "q", confident=True)
    expected = [max(rate[x] - rate[y], 0) for x, y in zip(log.docids(result.better), log.docids(result.worse), strict=True)]
    assert result.weights == pytest.approx(expected) and min(expected) < 0.1 < max(expected)


def test_unknown_kind_is_refused_and_no_query_gives_no_pair(log):
    with pytest.raises(OptionError, match="'best' is not one of shown, skipped, rate"):
        ask(log, "q", kind="best")
    assert len(ask(log)) == 0


@pytest.mark.parametrize("kind", ["skipped", "rate"])
def test_many_documents_of_one_query_take_little_memory(tmp_path, kind):
    """A popular query whose lists differ: all ordered pairs of its documents would take gigabytes."""
    import tracemalloc

    lists = [
        Impression("tap", tuple(f"d{20 * number + place}" for place in range(20)), tuple(range(1, 21)), (*([False] * 19), True))
        for number in range(300)
    ]
    import_records(lists, tmp_path / "many.db")
    log = ClickLog(tmp_path / "many.db")
    queries = log.query_ids(["tap"])
    tracemalloc.start()
    pairs = preferences(log, queries, kind=kind, limit=7)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(pairs) == 7 and peak < 30e6
    assert all(int(name[1:]) % 20 == 19 for name in log.docids(pairs.better))


def test_skipped_pairs_against_a_plain_count(tmp_path):
    rng = np.random.default_rng(0)
    orders, clicks = rng.permuted(np.tile(np.arange(8), (40, 1)), axis=1)[:, :5], rng.random((40, 5)) < 0.3
    lists = [
        Impression("tap", tuple(f"d{doc}" for doc in order), (1, 2, 3, 4, 5), tuple(clicked))
        for order, clicked in zip(orders.tolist(), clicks.tolist(), strict=True)
    ]
    import_records(lists, tmp_path / "votes.db")
    log = ClickLog(tmp_path / "votes.db")
    votes = {}
    for shown in lists:
        for low, better in enumerate(shown.docids):
            for high, worse in enumerate(shown.docids[:low]):
                if shown.clicked[low] and not shown.clicked[high]:
                    votes[better, worse] = votes.get((better, worse), 0) + 1
    expected = {pair for pair, count in votes.items() if count > votes.get(pair[::-1], 0)}
    pairs = preferences(log, log.query_ids(["tap"]), kind="skipped", limit=100)
    assert set(zip(log.docids(pairs.better), log.docids(pairs.worse), strict=True)) == expected and len(pairs) == len(expected)
