"""The database: round trips, sums by hand, appending, aggregating again, and what is refused."""

import json
import os
import shutil
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelsearch.clicks import __main__ as verb
from kernelsearch.clicks import importing, store, sums
from kernelsearch.clicks.importing import aggregate, import_log, import_records
from kernelsearch.clicks.records import Impression, Tally, normalise_query, write_log
from kernelsearch.clicks.store import ClickLog, remove_side_files
from kernelsearch.core.errors import BusyError, InputError, OptionError

LISTS = [
    Impression("tap", ("a", "b", "c"), (1, 2, 3), (False, True, False)),
    Impression("tap", ("b", "a"), (1, 2), (True, True)),
    Impression("faucet", ("b", "d"), (1, 2), (True, False)),
]
TALLIES = [Tally("tap", "e", 4, 10, 2.0), Tally("hose", "e", 3, 0, 1.0)]


def contents(path):
    """Everything that was stored, by name instead of number."""
    log = ClickLog(path)
    texts = dict(log.all_queries(clicked_only=False))
    shown = log.shown(np.array(sorted(texts)))
    docids = log.docids(shown.docs)
    return {
        (texts[int(q)], d): tuple(round(float(value), 9) for value in rest)
        for q, d, *rest in zip(shown.queries, docids, *shown[2:], strict=True)
    }


def test_sums_by_hand(tmp_path):
    done = import_records([*LISTS, *TALLIES], tmp_path / "c.db")
    assert (done.impressions, done.tallies, done.skipped.total) == (3, 2, 0)
    # impressions, clicks, exposure (sum of 1/r), corrected clicks (sum of r)
    assert contents(tmp_path / "c.db") == {
        ("tap", "a"): (2, 1, 1.5, 2),
        ("tap", "b"): (2, 2, 1.5, 3),
        ("tap", "c"): (1, 0, round(1 / 3, 9), 0),
        ("faucet", "b"): (1, 1, 1, 1),
        ("faucet", "d"): (1, 0, 0.5, 0),
        ("tap", "e"): (10, 4, 5, 8),
        ("hose", "e"): (0, 3, 0, 3),
    }
    totals = ClickLog(tmp_path / "c.db").totals()
    assert (totals.queries, totals.documents, totals.impressions, totals.tallies) == (3, 5, 3, 2)
    assert (totals.pairs, totals.clicks, totals.clicked_pairs) == (7, 11, 5)


def test_lookups_by_query_and_by_document(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    tap, faucet, unknown = log.query_ids(["TAP", "faucet", "spigot"])
    assert unknown == -1
    assert log.query_texts(np.array([faucet, tap])) == ["faucet", "tap"]
    b = log.shown(np.array([faucet]), clicked_only=True).docs
    assert log.docids(b) == ["b"]
    queries, docs, clicks = log.clicking(b)
    assert list(zip(queries, docs, clicks, strict=True)) == [(tap, b[0], 2), (faucet, b[0], 1)]
    sums, squares = log.moments(np.array([faucet, tap]))
    assert sums.tolist() == [1, 3] and squares.tolist() == [1, 1 + 4]
    newest, oldest = log.impressions(int(tap))
    assert log.docids(newest[0]) == ["b", "a"] and newest[2].tolist() == [True, True]
    assert log.docids(oldest[0]) == ["a", "b", "c"] and oldest[1].tolist() == [1, 2, 3]
    assert log.most_clicked(1) == [("tap", 2, 3)]


def test_written_sessions_come_back_as_they_were(tmp_path):
    assert write_log(LISTS, tmp_path / "log.jsonl") == 3
    import_log([tmp_path / "log.jsonl"], tmp_path / "read.db")
    import_records(LISTS, tmp_path / "direct.db")
    assert contents(tmp_path / "read.db") == contents(tmp_path / "direct.db")


def test_appending_equals_importing_at_once(tmp_path):
    import_records(LISTS[:1], tmp_path / "parts.db")
    import_records([*LISTS[1:], *TALLIES], tmp_path / "parts.db", append=True)
    import_records([*LISTS, *TALLIES], tmp_path / "whole.db")
    assert contents(tmp_path / "parts.db") == contents(tmp_path / "whole.db")
    assert ClickLog(tmp_path / "parts.db").generation == 2


@pytest.mark.parametrize("collected", [0, 3, 1000])
def test_batches_and_forgotten_names_change_nothing(tmp_path, monkeypatch, collected):
    import_records([*LISTS, *TALLIES], tmp_path / "whole.db")
    monkeypatch.setattr(importing, "BATCH", 2)
    monkeypatch.setattr(sums, "REMEMBERED", 1)
    monkeypatch.setattr(sums, "COLLECTED", collected)
    import_records([*LISTS, *TALLIES], tmp_path / "batches.db")
    assert contents(tmp_path / "batches.db") == contents(tmp_path / "whole.db")


def test_aggregating_again_equals_importing_with_that_bias(tmp_path):
    import_records([*LISTS, *TALLIES], tmp_path / "one.db", eta=1.0)
    import_records([*LISTS, *TALLIES], tmp_path / "half.db", eta=0.5)
    assert contents(tmp_path / "one.db") != contents(tmp_path / "half.db")
    aggregate(tmp_path / "one.db", 0.5)
    assert contents(tmp_path / "one.db") == contents(tmp_path / "half.db")
    assert ClickLog(tmp_path / "one.db").eta == 0.5


def test_a_failed_import_leaves_the_old_database(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    before = contents(tmp_path / "c.db")
    (tmp_path / "bad.jsonl").write_text('{"no": "query"}\n', encoding="utf-8")
    for append in (False, True):
        with pytest.raises(InputError, match=r"no usable record: 1 no query \(first: .*bad.jsonl:1\)"):
            import_log([tmp_path / "bad.jsonl"], tmp_path / "c.db", append=append)
    assert contents(tmp_path / "c.db") == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bad.jsonl", "c.db"]


def test_an_append_that_breaks_midway_is_undone(tmp_path, monkeypatch):
    import_records(LISTS, tmp_path / "c.db")
    before = contents(tmp_path / "c.db")
    monkeypatch.setattr(importing, "BATCH", 1)

    def broken():
        yield Impression("new", ("z",), (1,), (True,))
        raise InputError("the stream ends here")

    with pytest.raises(InputError, match="the stream ends here"):
        import_records(broken(), tmp_path / "c.db", append=True)
    assert contents(tmp_path / "c.db") == before


def test_what_is_no_click_database_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"absent.db: no such click database"):
        ClickLog(tmp_path / "absent.db")
    (tmp_path / "text.db").write_text(json.dumps({"a": 1}) * 2000, encoding="utf-8")
    with pytest.raises(InputError, match=r"text.db: not a click database"):
        ClickLog(tmp_path / "text.db")
    with pytest.raises(InputError, match=r"text.db: not a click database"):
        import_records(LISTS, tmp_path / "text.db", append=True)
    import_records(LISTS, tmp_path / "c.db", eta=1.0)
    with pytest.raises(OptionError, match="eta"):
        import_records(LISTS, tmp_path / "c.db", append=True, eta=0.5)


def test_readers_go_on_while_records_are_added(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    before = log.counts()
    seen = []

    def records():
        yield Impression("new", ("z",), (1,), (True,))
        seen.append(log.counts())
        seen.append(ClickLog(tmp_path / "c.db").counts())

    import_records(records(), tmp_path / "c.db", append=True)
    assert seen == [before, before]
    assert log.counts()["clicks"] == before["clicks"] + 1
    assert log.changed() and not ClickLog(tmp_path / "c.db").changed()


def test_a_locked_database_is_waited_for_and_then_reported(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    with closing(sqlite3.connect(tmp_path / "c.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError, match=r"c.db: locked by another process"):
            import_records(LISTS, tmp_path / "c.db", append=True, timeout=0.1)
        with pytest.raises(BusyError, match=r"c.db: locked by another process"):
            ClickLog(tmp_path / "c.db")
        other.execute("ROLLBACK")
    import_records(LISTS, tmp_path / "c.db", append=True)


def test_appends_at_the_same_time_are_all_added(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    before = ClickLog(tmp_path / "c.db").counts()["impressions"]
    problems = []

    def append(number: int) -> None:
        try:
            record = Impression(f"query {number}", ("z",), (1,), (True,))
            import_records([record], tmp_path / "c.db", append=True)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert ClickLog(tmp_path / "c.db").counts()["impressions"] == before + 8


def test_a_replaced_database_is_not_mixed_with_the_old_one(tmp_path):
    import_records(LISTS, tmp_path / "c.db")
    log = ClickLog(tmp_path / "c.db")
    before = log.counts()
    import_records([*LISTS, *LISTS], tmp_path / "c.db")
    assert log.counts() == before and log.changed()  # this thread still reads the old file
    problems = []

    def read() -> None:
        try:
            log.counts()
        except InputError as problem:
            problems.append(str(problem))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    assert "has been replaced" in problems[0]


def test_a_database_is_read_from_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    import_records(LISTS, tmp_path / "c.db")
    with closing(sqlite3.connect(tmp_path / "c.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    expected = ClickLog(tmp_path / "c.db").counts()
    remove_side_files(tmp_path / "c.db")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert ClickLog(tmp_path / "c.db").counts() == expected
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.db"]


def test_changes_are_noticed_in_a_folder_that_this_process_cannot_write_to(tmp_path, monkeypatch):
    """Another user may write to it: a service with fewer permissions reads what an import adds."""
    path = tmp_path / "c.db"
    import_records(LISTS[:1], path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        log = ClickLog(path)
        assert log.counts()["impressions"] == 1 and not log.changed()
    import_records(LISTS[:2], path, append=True)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert log.changed() and ClickLog(path).counts()["impressions"] == 3
    # The records of a writer that has not ended are in its write-ahead log.
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE queries SET clicks = clicks + 7")
        changed = writer.execute("SELECT SUM(clicks) FROM queries").fetchone()[0]
        assert ClickLog(path).counts()["clicks"] == changed


def test_what_a_killed_writer_left_unfinished_is_taken_back_by_a_reader(tmp_path):
    """The rollback journal of a change that was not committed lies beside the file, which has part of the change."""
    path = tmp_path / "c.db"
    import_records(LISTS, path)
    expected = ClickLog(path).counts()
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("PRAGMA cache_spill = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("DELETE FROM impressions")
    writer.execute("CREATE TABLE filling AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 4000) "
                   "SELECT i, randomblob(900) FROM n")  # fmt: skip
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in tmp_path.glob("c.db*"):
        shutil.copy(file, killed)
    writer.close()
    assert (killed / "c.db-journal").stat().st_size > 0 and (killed / "c.db").read_bytes() != path.read_bytes()
    log = ClickLog(killed / "c.db")
    assert log.counts() == expected
    assert not (killed / "c.db-journal").exists()
    with closing(store.connect_to_read(path)) as reader, pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("DELETE FROM impressions")


def test_an_import_keeps_the_database_that_it_replaces(tmp_path, capsys):
    database, log = tmp_path / "c.db", tmp_path / "log.jsonl"
    import_records(LISTS, database)
    before = contents(database)
    write_log(LISTS[:1], log)
    for _ in range(2):  # the second import replaces its own records: there is nothing to keep
        verb.main(["import", "--input", str(log), "--output", str(database)])
    assert ClickLog(database).totals().impressions == 1
    assert [path.name for path in (tmp_path / "replaced").iterdir()] == ["c-1.db"]
    assert contents(tmp_path / "replaced" / "c-1.db") == before
    assert capsys.readouterr().err.count(f"kept in {tmp_path / 'replaced' / 'c-1.db'} (--append adds to them)") == 1


def test_an_import_replaces_no_other_file(tmp_path):
    notes = tmp_path / "notes.txt"
    notes.write_text("not a database", encoding="utf-8")
    with pytest.raises(InputError, match=r"notes\.txt: not a click database"):
        import_records(LISTS, notes)
    assert notes.read_text(encoding="utf-8") == "not a database"
    assert [path.name for path in tmp_path.rglob("*")] == ["notes.txt"]


def test_queries_by_their_beginning_most_clicked_first(tmp_path):
    """A blank at the end means that the word is complete; case and further blanks don't matter."""
    clicks = {"tap": 2, "tap washer": 5, "tap drips": 5, "taps": 9, "TAPE": 1, "hot tap": 7}
    import_records([Tally(query.casefold(), "a", count, 0, 1.0) for query, count in clicks.items()], tmp_path / "c.db")
    import_records([Impression("tapir", ("a",), (1,), (False,))], tmp_path / "c.db", append=True)
    log = ClickLog(tmp_path / "c.db")

    def found(prefix, limit=10):
        return [text for text, _, _ in log.beginning_with(prefix, limit)]

    assert found("tap") == ["taps", "tap drips", "tap washer", "tap", "tape"]
    assert found("Tap", 3) == ["taps", "tap drips", "tap washer"]
    assert found(" TAP \t") == ["tap drips", "tap washer"] and found("tap  w") == ["tap washer"]
    assert found("") == found("  ") == ["taps", "hot tap", "tap drips", "tap washer", "tap", "tape"] and found("washer") == []
    assert log.beginning_with("tap d", 1) == [("tap drips", 0, 5)]
    assert log.clicked_queries() == 6


def test_another_format_is_refused_and_the_first_one_is_read(tmp_path):
    """The number belongs to the saved format: databases that were made with format 1 are read as long as it is read."""
    import_records(LISTS, tmp_path / "c.db")
    for number, message in ((1, None), (2, r"c.db: click database of format 2, this version reads 1")):
        with closing(sqlite3.connect(tmp_path / "c.db")) as connection, connection:
            connection.execute("UPDATE settings SET value = ? WHERE name = 'format'", (number,))
        if message is None:
            ClickLog(tmp_path / "c.db")
            import_records(LISTS, tmp_path / "c.db", append=True)
            continue
        with pytest.raises(InputError, match=message):
            ClickLog(tmp_path / "c.db")
        with pytest.raises(InputError, match=message):
            import_records(LISTS, tmp_path / "c.db", append=True)


def test_an_empty_file_is_no_database_to_append_to(tmp_path):
    (tmp_path / "c.db").touch()
    import_records(LISTS, tmp_path / "c.db", append=True)
    assert ClickLog(tmp_path / "c.db").counts()["impressions"] == 3
    assert not (tmp_path / "replaced").exists()
    assert (tmp_path / "c.db").stat().st_mode & 0o777 == 0o644


def test_databases_that_are_replaced_are_numbered_and_each_is_kept_once(tmp_path):
    logs = [LISTS[:1], LISTS[:2], LISTS]
    for number in (0, 1, 2, 0, 1, 0):
        import_records(logs[number], tmp_path / "c.db")
    kept = {path.name: ClickLog(path).counts()["impressions"] for path in (tmp_path / "replaced").iterdir()}
    assert kept == {"c-1.db": 1, "c-2.db": 2, "c-3.db": 3}


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_aggregating_in_batches_sums_every_record_once(tmp_path, monkeypatch, batch):
    tallies = [Tally("tap", name, clicks, 10, 2.0) for clicks, name in enumerate("aabca")]
    import_records([*LISTS, *tallies], tmp_path / "one.db", eta=1.0)
    import_records([*LISTS, *tallies], tmp_path / "half.db", eta=0.5)
    monkeypatch.setattr(importing, "BATCH", batch)
    aggregate(tmp_path / "one.db", 0.5)
    assert contents(tmp_path / "one.db") == contents(tmp_path / "half.db")


def test_sums_are_collected_until_many_pairs_differ(tmp_path, monkeypatch):
    """More than 10 entries are summed first, and written only where more than 5 different pairs are left."""
    monkeypatch.setattr(sums, "COLLECTED", 10)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(store.SCHEMA)
        collected = sums.ShownSums(connection, 1.0)

        def add(count):
            docs, ones = np.arange(count), np.ones(count)
            collected.add(np.full(count, 7), docs, ones, ones, 2 * ones)
            return connection.execute("SELECT COUNT(*) FROM shown").fetchone()[0]

        assert [add(5), add(5), add(5), add(5)] == [0, 0, 0, 0]  # five different pairs stay in memory
        assert add(6) == 6
        assert [add(10), add(1)] == [6, 10]  # ten are not more than ten
        collected.write()
        rows = connection.execute("SELECT query, doc, impressions, clicks, exposure, corrected FROM shown").fetchall()
    times = [7, 6, 6, 6, 6, 2, 1, 1, 1, 1]
    assert rows == [(7, doc, count, count, count / 2, 2.0 * count) for doc, count in enumerate(times)]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
QUERY = TEXT.map(normalise_query).filter(bool)
SHOWN = st.lists(st.tuples(TEXT, st.integers(1, 2**20), st.booleans()), min_size=1, max_size=4, unique_by=lambda item: item[0])
LOGGED = st.lists(
    st.builds(lambda query, shown: Impression(query, *zip(*shown, strict=True)), QUERY, SHOWN)
    | st.builds(
        lambda query, docid, clicks, rest, place: Tally(query, docid, clicks, rest and rest + clicks, place),
        QUERY, TEXT.map(str.strip).filter(bool), st.integers(0, 2**28), st.integers(0, 2**28), st.floats(1, 2**20),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(one=LOGGED, two=LOGGED)
def test_an_exported_log_is_imported_as_it_was(tmp_path_factory, one, two):
    folder = tmp_path_factory.mktemp("export")
    paths = {name: str(folder / name) for name in ("one.db", "two.db", "merged.db", "log.jsonl", "again.db", "again.jsonl")}
    import_records(one, paths["one.db"], eta=0.5)
    import_records(two, paths["two.db"], eta=0.5)
    verb.main(["import", "--input", paths["one.db"], paths["two.db"], "--output", paths["merged.db"]])
    verb.main(["export", "--log", paths["merged.db"], "--output", paths["log.jsonl"]])
    verb.main(["import", "--input", paths["log.jsonl"], "--output", paths["again.db"], "--eta", "0.5"])
    verb.main(["export", "--log", paths["again.db"], "--output", paths["again.jsonl"]])
    both = [*one, *two]
    ordered = [record for kind in (Impression, Tally) for part in (one, two) for record in part if isinstance(record, kind)]
    import_records(both, folder / "whole.db", eta=0.5)
    for name in ("merged.db", "again.db"):
        log = ClickLog(paths[name])
        assert list(log.records()) == ordered and log.eta == 0.5
        assert contents(paths[name]) == contents(folder / "whole.db")
    assert (folder / "log.jsonl").read_bytes() == (folder / "again.jsonl").read_bytes()


def test_databases_of_different_bias_are_merged_by_a_named_one(tmp_path):
    paths = [str(tmp_path / name) for name in ("one.db", "two.db", "merged.db")]
    for path, eta in zip(paths, (0.5, 1.0), strict=False):
        import_records(LISTS, path, eta=eta)
    with pytest.raises(OptionError, match=r"^eta: .*one.db, .*two.db were made with 0.5 and 1"):
        import_log(paths[:2], paths[2])
    assert not (tmp_path / "merged.db").exists()
    import_log(paths[:2], paths[2], eta=2.0)
    assert ClickLog(paths[2]).eta == 2.0 and ClickLog(paths[2]).totals().impressions == 6
