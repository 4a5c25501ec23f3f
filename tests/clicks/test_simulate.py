"""Click models against their definitions, simulated logs, and the command line."""

import json
from collections import Counter

import numpy as np
import pytest

from kernelsearch.cli.simulating import SimulateSettings
from kernelsearch.clicks import __main__ as verb
from kernelsearch.clicks.models import Cascade, PositionBased, attraction
from kernelsearch.clicks.records import write_log
from kernelsearch.clicks.simulate import Need, needs_from_run, needs_from_search, simulate
from kernelsearch.core.errors import KernelSearchError


def rates(model, attractions, users=20000):
    rng = np.random.default_rng(7)
    return np.mean([model.clicks(np.array(attractions), rng) for _ in range(users)], axis=0)


def test_attraction_grows_with_the_grade():
    assert attraction(np.array([-1, 0, 1, 2]), top=2, noise=0.1, certain=0.7).tolist() == pytest.approx([0.1, 0.1, 0.3, 0.7])


def test_position_based_users_click_by_propensity_times_attraction():
    assert rates(PositionBased(eta=1.0), [0.8, 0.8, 0.4]) == pytest.approx([0.8, 0.4, 0.4 / 3], abs=0.015)
    assert rates(PositionBased(eta=0.0), [0.8, 0.8, 0.4]) == pytest.approx([0.8, 0.8, 0.4], abs=0.015)


def test_cascade_users_stop_after_a_click():
    # A click at 1 (.5) ends with .8: the rest is read with probability 1 - .4 = .6, and so on.
    assert rates(Cascade(stop=0.8), [0.5, 0.5, 1.0]) == pytest.approx([0.5, 0.5 * 0.6, 0.36], abs=0.015)
    assert rates(Cascade(stop=1.0), [1.0, 1.0]).tolist() == [1, 0]


NEEDS = [
    Need("tap", ("a", "b", "c"), {"b": 1, "z": 1}),
    Need("fuse", ("c", "d"), {"d": 2}),
    Need("nothing found", (), {"z": 1}),
]


def make(seed=3, **options):
    options = {"model": PositionBased(), "explore": 0.3, **options}
    return list(simulate(NEEDS, 400, seed=seed, others=["x", "y"], **options))


def test_the_seed_decides_every_byte(tmp_path):
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        write_log(make(seed), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "same").read_bytes() != (tmp_path / "other").read_bytes()


def test_every_query_occurs_and_lists_stay_within_depth():
    log = make(depth=2)
    assert {record.query for record in log} == {"tap", "fuse", "nothing found"}
    assert max(len(record.docids) for record in log) == 2
    assert all(len(set(record.docids)) == len(record.docids) for record in log)


def test_what_is_explored_and_clicked_unless_asked_otherwise():
    """Lists of 10, exploration in 3 of 10 of them, and a click on 1 of 20 documents that aren't relevant."""
    named = {"depth": 10, "explore": 0.3, "noise": 0.05}
    plain = list(simulate(NEEDS, 400, seed=3, others=["x", "y"], model=PositionBased()))
    assert plain == make(**named) != make(**{**named, "explore": 0.35})


def test_only_exploration_shows_what_the_engine_misses():
    assert not any("z" in record.docids for record in make(explore=0.0))
    assert any("z" in record.docids and record.clicked[record.docids.index("z")] for record in make(explore=1.0))


def test_relevant_documents_are_clicked_more():
    log = make(explore=0.0, model=PositionBased(eta=0.0))
    clicks = {docid: [] for docid in "abcd"}
    for record in log:
        for docid, clicked in zip(record.docids, record.clicked, strict=True):
            clicks[docid].append(clicked)
    assert np.mean(clicks["d"]) > 0.8 and np.mean(clicks["a"]) < 0.12
    assert np.mean(clicks["a"]) < np.mean(clicks["b"]) < np.mean(clicks["d"])  # grades 0, 1 of 2, 2 of 2


def test_command_line_from_simulation_to_pairs(tmp_path, capsys, tiny_path):
    (tmp_path / "t.tsv").write_text("1\tdripping tap\n2\tblown fuse\n3\tnot judged\n", encoding="utf-8")
    (tmp_path / "q.txt").write_text("1 0 d1 1\n1 0 d2 1\n2 0 d3 1\n", encoding="utf-8")
    (tmp_path / "v.tsv").write_text("1\ttap drips\n", encoding="utf-8")
    files = ["--topics", str(tmp_path / "t.tsv"), "--qrels", str(tmp_path / "q.txt"), "--variants", str(tmp_path / "v.tsv")]
    log, database = str(tmp_path / "log.jsonl"), str(tmp_path / "c.db")
    verb.main(["simulate", "--index", str(tiny_path), *files, "--impressions", "300", "--output", log])
    verb.main(["import", "--input", log, "--output", database])
    verb.main(["import", "--input", log, "--output", database, "--append"])
    assert "300 impressions imported, 0 lines skipped" in capsys.readouterr().err
    verb.main(["stats", "--log", database])
    assert "impressions" in (out := capsys.readouterr().out) and "600" in out and "tap drips" in out
    verb.main(["pairs", "--log", database, "--query", "Tap drips", "--kind", "rate"])
    preferred = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()]
    assert preferred[0] in {"d1", "d2"}
    verb.main(["aggregate", "--log", database, "--eta", "0.5"])
    with pytest.raises(KernelSearchError, match="isn't in the log"):
        verb.main(["pairs", "--log", database, "--query", "spigot"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--index", "i", "--run", "r"], "give one of them"),
        (["--run", "r", "--variants", "v"], "--variants needs --index"),
        (["--index", "i", "--explore", "2"], "explore: 2.0 is above 1"),
    ],
)
def test_simulate_refuses_contradictions(arguments, message):
    with pytest.raises(KernelSearchError, match=message):
        verb.main(["simulate", "--topics", "t", "--qrels", "q", "--output", "o", *arguments])


def test_attraction_of_the_only_grade_and_without_any():
    assert attraction(np.array([0, 1]), top=1, noise=0.1, certain=0.7).tolist() == pytest.approx([0.1, 0.7])
    assert attraction(np.array([0, -2]), top=0, noise=0.1, certain=0.7).tolist() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("model", ["position", "cascade"])
def test_the_command_simulates_the_models_of_the_documentation(tmp_path, model):
    """Position r is looked at with 1/r, or until a click, which ends eight of ten sessions; .9 click what is relevant, .05 the
    rest; ten documents of the run's twelve are shown."""
    (tmp_path / "t.tsv").write_text("1\ttap\n2\tnot judged\n3\tno list\n", encoding="utf-8")
    (tmp_path / "q.txt").write_text("".join(f"{qid} 0 d{n} {n % 2}\n" for qid in (1, 3) for n in range(12)), encoding="utf-8")
    run = "".join(f"{qid} Q0 d{n} {n + 1} {20 - n} x\n" for qid in (1, 2) for n in range(12))
    (tmp_path / "run.txt").write_text(run, encoding="utf-8")
    files = ["--topics", str(tmp_path / "t.tsv"), "--qrels", str(tmp_path / "q.txt"), "--run", str(tmp_path / "run.txt")]
    verb.main(
        ["simulate", *files, "--model", model, "--explore", "0", "--impressions", "4000", "--output", str(tmp_path / "l.jsonl")]
    )
    records = [json.loads(line) for line in (tmp_path / "l.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(records) == 4000 and {record["query"] for record in records} == {"tap"}
    assert {tuple(item["docid"] for item in record["items"]) for record in records} == {tuple(f"d{n}" for n in range(10))}
    observed = np.mean([[item["clicked"] for item in record["items"]] for record in records], axis=0)
    attracted = np.array([0.05, 0.9] * 5)
    looked_at = 1 / np.arange(1, 11) if model == "position" else np.cumprod([1, *(1 - 0.8 * attracted[:-1])])
    assert observed == pytest.approx(looked_at * attracted, abs=0.025)


def test_queries_recur_by_a_power_of_their_popularity():
    """Every query once, then by rank^-.7: the shares of 6,000 impressions, most frequent first."""
    needs = [Need(f"query {number}", ("a",), {"a": 1}) for number in range(8)]
    counts = Counter(record.query for record in simulate(needs, 6000, model=PositionBased(), seed=5, explore=0.0))
    expected = np.arange(1, 9) ** -0.7
    assert sorted(counts.values(), reverse=True) == pytest.approx(1 + 5992 * expected / expected.sum(), rel=0.12)
    few = list(simulate(needs, 5, model=PositionBased(), seed=5, explore=0.0))
    assert len({record.query for record in few}) == len(few) == 5


def explored(grades, others, count=1500, ranking=("a", "b"), **options):
    """The lists of users who are always shown something else."""
    needs = [Need("q", ranking, grades)]
    return list(simulate(needs, count, model=PositionBased(), seed=2, explore=1.0, others=others, depth=50, **options))


def test_exploration_shows_one_to_three_documents_at_any_rank():
    lists = explored({}, [f"o{number}" for number in range(5000)])
    assert all(record.positions == tuple(range(1, len(record.docids) + 1)) for record in lists)
    added = Counter(len(record.docids) - 2 for record in lists)
    assert set(added) == {1, 2, 3} and [added[n] / len(lists) for n in (1, 2, 3)] == pytest.approx([1 / 3] * 3, abs=0.05)
    places = Counter(
        place for record in lists if len(record.docids) == 3 for place, docid in enumerate(record.docids) if docid[0] == "o"
    )
    total = sum(places.values())
    assert [places[place] / total for place in (0, 1, 2)] == pytest.approx([1 / 3] * 3, abs=0.07)


def test_exploration_shows_missed_relevant_documents_as_often_as_others():
    lists = explored({**{f"m{n}": 1 for n in range(3000)}, "n1": 0, "n2": -1}, [f"o{n}" for n in range(3000)])
    kinds = Counter(docid[0] for record in lists for docid in record.docids)
    assert set(kinds) == {"a", "b", "m", "o"} and kinds["m"] / (kinds["m"] + kinds["o"]) == pytest.approx(0.5, abs=0.04)
    # Without other documents, those that were missed are shown; what is judged not relevant or shown already is not missed.
    alone = explored({"a": 1, "m": 2, "n": 0}, [], 200)
    assert {docid for record in alone for docid in record.docids} == {"a", "b", "m"}
    assert all(sorted(record.docids) == ["a", "b", "m"] for record in alone)
    assert {record.docids for record in explored({"a": 1, "n": 0}, [], 50)} == {("a", "b")}


@pytest.mark.parametrize("line", ["9\ttap drips", "1\t ", "1"])
def test_a_line_of_variants_names_a_judged_topic_and_a_wording(tmp_path, line):
    (tmp_path / "t.tsv").write_text("1\tdripping tap\n", encoding="utf-8")
    (tmp_path / "q.txt").write_text("1 0 d1 1\n9 0 d1 1\n", encoding="utf-8")
    (tmp_path / "v.tsv").write_text(f"1\ttap drips\n{line}\n", encoding="utf-8")
    with pytest.raises(KernelSearchError, match=r"v\.tsv: line 2 is not the id of a judged topic, a tab and a wording"):
        needs_from_search(lambda texts: [[]] * len(texts), tmp_path / "t.tsv", tmp_path / "q.txt", tmp_path / "v.tsv")


def test_lists_of_a_run_are_those_of_judged_topics(tmp_path):
    (tmp_path / "t.tsv").write_text("1\tone\n2\ttwo\n3\tthree\n4\tfour\n", encoding="utf-8")
    (tmp_path / "q.txt").write_text("1 0 a 1\n2 0 a 2\n", encoding="utf-8")
    (tmp_path / "run.txt").write_text("2 Q0 b 1 2 x\n2 Q0 a 2 1 x\n3 Q0 c 1 1 x\n", encoding="utf-8")
    assert needs_from_run(tmp_path / "run.txt", tmp_path / "t.tsv", tmp_path / "q.txt") == [Need("two", ("b", "a"), {"a": 2})]
    (tmp_path / "q.txt").write_text("1 0 a 1\n", encoding="utf-8")
    with pytest.raises(KernelSearchError, match=r"run\.txt: has no list for a judged topic"):
        needs_from_run(tmp_path / "run.txt", tmp_path / "t.tsv", tmp_path / "q.txt")


def test_no_impression_writes_an_empty_file(tmp_path):
    assert write_log([], tmp_path / "l.jsonl") == 0 and (tmp_path / "l.jsonl").read_bytes() == b""


def test_lists_are_as_long_as_those_of_the_command():
    """In Python as on the command line."""
    need = Need("q", tuple(f"d{number}" for number in range(20)), {})
    (shown,) = simulate([need], 1, model=PositionBased(), seed=1, explore=0.0)
    assert len(shown.docids) == SimulateSettings().depth
