"""Click models against their definitions, simulated logs, and the command line."""

import numpy as np
import pytest

from kernelsearch.clicks import __main__ as verb
from kernelsearch.clicks.models import Cascade, PositionBased, attraction
from kernelsearch.clicks.simulate import Need, simulate, write_sessions
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
        write_sessions(make(seed), tmp_path / name)
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
        (["--index", "i", "--explore", "2"], "--explore: 2.0 is above 1"),
    ],
)
def test_simulate_refuses_contradictions(arguments, message):
    with pytest.raises(KernelSearchError, match=message):
        verb.main(["simulate", "--topics", "t", "--qrels", "q", "--output", "o", *arguments])
