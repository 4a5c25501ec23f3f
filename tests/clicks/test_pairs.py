"""Preference pairs, extracted by hand from a few lists."""

import numpy as np
import pytest

from kernelsearch.clicks import __main__ as verb
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.pairs import preferences, preferences_by_query
from kernelsearch.clicks.records import Impression, Tally
from kernelsearch.clicks.settings import PairsSettings
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


def random_lists(seed: int) -> list[Impression]:
    """Lists of different lengths with gaps and ties in their ranks; one query and three documents are never clicked."""
    rng = np.random.default_rng(seed)
    lists = []
    for _ in range(40):
        numbers = rng.permutation(9)[: rng.integers(1, 8)]
        names, ranks = [f"d{number}" for number in numbers], np.sort(rng.integers(1, 25, len(numbers)))
        query = ("first", "second", "silent")[rng.integers(3)]
        clicked = (rng.random(len(names)) < 0.4) & (numbers < 6) & (query != "silent")
        lists.append(Impression(query, tuple(names), tuple(ranks.tolist()), tuple(clicked.tolist())))
    # All that is shown for this query is clicked, so that nothing is preferred to anything.
    return [*lists, Impression("sure", ("d1", "d2"), (1, 2), (True, True))]


class Counted:
    """Clicks, impressions, exposure and corrected clicks of one query by docid, and the numbers of docids in the log."""

    def __init__(self, lists: list[Impression], query: str) -> None:
        self.number = {docid: n for n, docid in enumerate(dict.fromkeys(docid for item in lists for docid in item.docids))}
        self.lists = [item for item in lists if item.query == query]
        self.clicks, self.shown, self.looks, self.corrected = (dict.fromkeys(self.number, 0.0) for _ in range(4))
        for item in self.lists:
            for docid, rank, clicked in zip(item.docids, item.positions, item.clicked, strict=True):
                self.shown[docid] += 1
                self.looks[docid] += 1 / rank
                self.clicks[docid] += clicked
                self.corrected[docid] += rank * clicked
        self.docids = [docid for docid in self.number if self.shown[docid]]

    def by(self, values, docids):
        return sorted(docids, key=lambda docid: (-values[docid], self.number[docid]))

    def pairs(self, kind: str, corrected: bool) -> list[tuple[str, str]]:
        clicks = self.corrected if corrected else self.clicks
        if kind == "shown":
            better = self.by(clicks, [docid for docid in self.docids if self.clicks[docid]])
            worse = self.by(self.looks, [docid for docid in self.docids if not self.clicks[docid]])
            rounds = range(len(worse))
            return [(a, worse[(place + turn) % len(worse)]) for turn in rounds for place, a in enumerate(better)]
        if kind == "rate":
            rate = {docid: clicks[docid] / self.shown[docid] for docid in self.docids}
            order = self.by(rate, self.docids)
            return [(a, b) for b in reversed(order) for a in order if rate[a] > rate[b]]
        votes: dict[tuple[str, str], int] = {}
        for item in self.lists:
            entries = list(zip(item.docids, item.positions, item.clicked, strict=True))
            for a, rank, clicked in entries:
                for b, other, also in entries:
                    if clicked and not also and other < rank:
                        votes[a, b] = votes.get((a, b), 0) + 1
                        votes[b, a] = votes.get((b, a), 0) - 1
        preferred = [pair for pair, net in votes.items() if net > 0]
        return sorted(preferred, key=lambda pair: (-votes[pair], self.number[pair[0]], self.number[pair[1]]))

    def weights(self, pairs, corrected: bool, confident: bool) -> list[float]:
        weights = np.ones(len(pairs))
        if corrected and pairs:
            weights = np.array([self.corrected[a] / self.clicks[a] for a, _ in pairs])
            weights /= weights.mean()
        if confident:
            mean = sum(self.clicks.values()) / sum(self.looks.values())
            rate = {docid: (self.clicks[docid] + mean) / (self.looks[docid] + 1) for docid in self.docids}
            weights = weights * [min(max(rate[a] - rate[b], 0.0), 1.0) for a, b in pairs]
        return list(weights)


@pytest.mark.parametrize("kind", ["shown", "skipped", "rate"])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_and_weights_of_random_logs_are_those_of_the_definitions(tmp_path, kind, seed):
    """Pair by pair, in order, of all queries at once: those without a click or without a document to compare with have none."""
    lists = random_lists(seed)
    import_records(lists, tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    counted = {query: Counted(lists, query) for query in ("silent", "second", "sure", "first")}
    for limit in (3, 1000):
        for corrected in (False, True):
            for confident in (False, True):
                expected, weights = [], []
                for query, table in counted.items():
                    pairs = table.pairs(kind, corrected)[:limit]
                    expected += [(query, *pair) for pair in pairs]
                    weights += table.weights(pairs, corrected, confident)
                result = ask(log, *counted, kind=kind, limit=limit, corrected=corrected, confident=confident)
                assert docid_pairs(log, result) == expected
                assert result.weights == pytest.approx(weights)
    assert {"first", "second"} <= {query for query, *_ in expected} <= {"first", "second", "sure"}


def test_rates_above_one_click_per_look_are_one_click(tmp_path):
    """Ten clicks at rank 10 after one look in sum: the difference of the rates counts as 1."""
    import_records([Impression("q", ("a", "b"), (10, 11), (True, False))] * 10, tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    looks = {"a": 1.0, "b": 10 / 11}
    mean = 10 / sum(looks.values())
    assert (10 + mean) / 2 - mean / (looks["b"] + 1) > 1
    assert ask(log, "q", confident=True).weights.tolist() == [1.0]


@pytest.mark.parametrize("kind", ["shown", "skipped", "rate"])
def test_queries_without_a_pair_give_empty_arrays(tmp_path, kind):
    import_records([Impression("silent", ("a", "b"), (1, 2), (False, False)), Tally("rows", "a", 1, 0, 1.0)], tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    result = ask(log, "silent", "rows", kind=kind)
    assert [array.shape for array in (result.queries, result.better, result.worse, result.weights)] == [(0,)] * 4


def test_as_many_pairs_as_the_command_prints_without_flags(tmp_path, capsys):
    shown = Impression("q", tuple(f"d{n}" for n in range(40)), tuple(range(1, 41)), (True, *[False] * 39))
    import_records([shown], tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    verb.main(["pairs", "--log", str(tmp_path / "c.db")])
    printed = [tuple(line.split("\t")[:3]) for line in capsys.readouterr().out.splitlines()]
    assert printed == docid_pairs(log, ask(log, "q")) == [pair[:3] for pair in preferences_by_query(log, ["q"])]
    assert len(printed) == PairsSettings().limit


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
