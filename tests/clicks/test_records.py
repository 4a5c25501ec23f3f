"""Reading logs: every form by hand, every bad line counted and named."""

import gzip
import json
import os
import threading
from collections import namedtuple

import pytest

from kernelsearch.cli.inputs import load_clicks
from kernelsearch.clicks.importing import read_log
from kernelsearch.clicks.records import Impression, Skipped, Tally, from_qlogs, normalise_query, read
from kernelsearch.core.errors import InputError


def session(query, *items, **more):
    return json.dumps({"query": query, "items": [{"docid": d, "clicked": c} for d, c in items], **more})


def test_sessions_are_read_with_positions_and_flags(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(session("New  YORK", ("a", False), ("b", True)) + "\n\n" + session("x", ("c", 1)) + "\n", encoding="utf-8")
    skipped = Skipped()
    assert list(read(path, skipped)) == [
        Impression("new york", ("a", "b"), (1, 2), (False, True)),
        Impression("x", ("c",), (1,), (True,)),
    ]
    assert skipped.total == 0


def test_a_document_listed_twice_counts_once_at_its_better_place(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(session("q", ("a", False), ("b", False), ("a", True)), encoding="utf-8")
    assert list(read(path, Skipped())) == [Impression("q", ("a", "b"), (1, 2), (True, False))]


def test_bad_lines_are_counted_by_reason_and_the_first_is_named(tmp_path):
    path = tmp_path / "log.jsonl"
    good = session("q", ("a", True)).encode()
    bad = [
        b"{broken",
        b'{"query": "q"}',
        b"[1]",
        b'{"query": " ", "items": [{"docid": "a", "clicked": true}]}',
        b"\xff\xfe",
        b"{broken too",
        b'{"query": "q", "query": "r", "items": [{"docid": "a", "clicked": true}]}',
    ]
    bad += [
        b'{"query": "q", "items": [{"docid": "a"}]}',
        b'{"query": "q", "items": [{"docid": "a", "clicked": true, "rank": 0}]}',
    ]
    path.write_bytes(b"\n".join([good, *bad, good]))
    skipped = Skipped()
    assert len(list(read(path, skipped))) == 2
    assert skipped.counts == {
        "not JSON": 2,
        "no items": 1,
        "not an object": 1,
        "no query": 1,
        "not UTF-8": 1,
        "a key that occurs twice": 1,
        "an item without clicked flag": 1,
        "a rank that is not a whole number from 1": 1,
    }
    assert skipped.lines()[0] == f"2 not JSON (first: {path}:2)"


def test_half_of_an_escaped_character_is_counted_and_a_whole_one_is_read(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(
        b'{"query": "\\ud83d", "items": [{"docid": "a", "clicked": true}]}\n' + session("\U0001f6b0", ("a", True)).encode()
    )
    skipped = Skipped()
    assert [record.query for record in read(path, skipped)] == ["\U0001f6b0"]
    assert skipped.lines() == [f"1 not UTF-8 (first: {path}:1)"]


def test_a_gzipped_table_is_read_by_its_header(tmp_path):
    path = tmp_path / "log.tsv.gz"
    rows = [
        "locale\tquery\tentity_id\tclicks\taverage_position",
        "pt\tBenfica\tQ1\t12\t1.5",
        "pt\tBenfica\t\t3\t1",
        "pt\tporto\tQ2\tx\t1",
    ]
    rows += ["pt\tporto\tQ2\t-1\t1", "short\tline"]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    skipped = Skipped()
    assert list(read(path, skipped)) == [Tally("benfica", "Q1", 12, 0, 1.5)]
    assert skipped.counts == {"no docid": 1, "clicks not a number": 1, "clicks negative or not finite": 1, "not 5 columns": 1}


@pytest.mark.parametrize("delimiter", [",", ";", "|"])
def test_a_csv_table_is_read_with_its_delimiter_and_quotes(delimiter, tmp_path):
    rows = ["Query;docid;clicks;impressions", '"tap; a ""dripping"" one";d1;3;10', "tap;d2;1;4", 'tap;"d3;1;4', "tap;d4;1"]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows).replace(";", delimiter), encoding="utf-8-sig")
    skipped = Skipped()
    assert list(read(path, skipped)) == [
        Tally(f'tap{delimiter} a "dripping" one', "d1", 3, 10, 1.0),
        Tally("tap", "d2", 1, 4, 1.0),
    ]
    assert dict(skipped.counts) == {"not a line of CSV": 1, "not 4 columns": 1}


def test_rows_of_a_table_of_events_are_impressions(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("time,query,docid,clicked,rank\n1,hose,a,1,1\n2,hose,b,False,2\n3,hose,c,TRUE,\n4,hose,d,maybe,1\n")
    skipped = Skipped()
    assert list(read(path, skipped)) == [
        Tally("hose", *rest) for rest in (("a", 1, 1, 1.0), ("b", 0, 1, 2.0), ("c", 1, 1, 1.0))
    ]
    assert dict(skipped.counts) == {"clicks not a number": 1}


@pytest.mark.parametrize("header", ["query,docid,clicks,Clicks", "query\tdocid\tclicks\tquery"])
def test_a_table_with_two_columns_of_one_name_is_refused(tmp_path, header):
    path = tmp_path / "log.csv"
    path.write_text(f"\n{header}\n")
    name = header[-6:].strip().lower()
    with pytest.raises(InputError, match=rf"log\.csv: line 2: 2 columns are called '{name}'"):
        list(read(path, Skipped()))


def test_a_json_array_is_named(tmp_path):
    path = tmp_path / "log.json"
    path.write_text('[{"query": "tap"}]')
    with pytest.raises(InputError, match=r"log\.json: a JSON array; one object per line was expected"):
        read(path, Skipped())


def test_a_table_with_impressions_refuses_more_clicks_than_showings(tmp_path):
    path = tmp_path / "log.tsv"
    path.write_text("query\tdocid\tclicks\timpressions\nq\ta\t2\t5\nq\tb\t6\t5\n", encoding="utf-8")
    skipped = Skipped()
    assert list(read(path, skipped)) == [Tally("q", "a", 2, 5, 1.0)]
    assert skipped.lines() == [f"1 more clicks than impressions (first: {path}:3)"]


def test_ir_datasets_records_are_read_with_and_without_rank():
    record = namedtuple("record", "query_id query items")
    ranked, plain = namedtuple("item", "doc_id rank clicked"), namedtuple("item", "doc_id clicked")
    records = [
        record("1", "Tap", (ranked("a", 4, True),)),
        record("2", "tap", (plain("a", False), plain("b", True))),
        record("3", "tap", (namedtuple("item", "doc_id")("a"),)),
    ]
    skipped = Skipped()
    assert list(from_qlogs(records, skipped)) == [
        Impression("tap", ("a",), (4,), (True,)),
        Impression("tap", ("a", "b"), (1, 2), (False, True)),
    ]
    assert skipped.lines() == ["1 no field clicked (first: ir_datasets record 3)"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b"SQLite format 3\0\x10", "a database in a pipe or compressed"),
        (b"query\tclicks\n", "no column docid"),
        (b"\x1f\x8b\x08\x00broken", "damaged gzip file"),
    ],
)
def test_files_that_are_no_log_are_refused_by_name(tmp_path, content, message):
    path = tmp_path / "log"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as problem:
        list(read(path, Skipped()))
    assert str(path) in str(problem.value)


def test_numbers_and_nesting_beyond_the_database_are_skipped(tmp_path):
    path = tmp_path / "log"
    item = '{"docid": "a", "clicked": true, "rank": %s}'
    bad = [item % 2**31, item % 10**30, '{"docid": %s, "clicked": true}' % 10**30, '{"docid": "a\\u0000b", "clicked": true}']
    path.write_text(
        "".join(f'{{"query": "q", "items": [{entry}]}}\n' for entry in (item % (2**31 - 1), *bad))
        + '{"query": "q", "items": '
        + "[" * 100_000
        + "]" * 100_000
        + "}\n"
    )
    skipped = Skipped()
    assert [record.positions for record in read(path, skipped)] == [(2**31 - 1,)]
    assert skipped.counts == {
        "a rank that is not a whole number from 1": 2,
        "an item without docid": 1,
        "a docid with NUL": 1,
        "nested too deeply": 1,
    }
    path.write_text("query\tdocid\tclicks\tposition\nq\ta\t1e300\t1\nq\ta\t1\t1e300\nq\ta\t1\t2\n")
    skipped = Skipped()
    assert list(read(path, skipped)) == [Tally("q", "a", 1, 0, 2.0)]
    assert skipped.counts == {"clicks too large": 1, "position too large": 1}


def test_a_log_from_a_pipe_is_whole(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = '{"query": "q", "items": [{"docid": "a", "clicked": true}]}\n' * 3000
    threading.Thread(target=lambda: pipe.write_text(content), daemon=True).start()
    assert len(list(read_log(pipe, Skipped()))) == 3000


def test_missing_file_and_folder_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read(tmp_path / "absent", Skipped()))
    with pytest.raises(InputError, match="is a directory"):
        list(read(tmp_path, Skipped()))


def test_queries_are_kept_case_folded_with_single_blanks():
    assert normalise_query("  Straße \t NEW\u00a0York ") == "strasse new york"


def test_query_logs_of_ir_datasets_have_one_prefix(monkeypatch):
    record = namedtuple("record", "query items")
    item = namedtuple("item", "doc_id clicked")

    class Dataset:
        def has_qlogs(self):
            return True

        def qlogs_iter(self):
            return iter([record("tap", (item("a", True),))])

    monkeypatch.setattr("ir_datasets.load", lambda name: {"aol": Dataset()}[name])
    assert list(load_clicks("irds:aol", Skipped())) == [Impression("tap", ("a",), (1,), (True,))]
    with pytest.raises(InputError, match="ir_datasets:aol: no such file"):
        list(load_clicks("ir_datasets:aol", Skipped()))


def test_the_first_rank_is_one(tmp_path):
    path = tmp_path / "log"
    path.write_text('{"query": "q", "items": [{"docid": "a", "clicked": true, "rank": 1}]}\n')
    skipped = Skipped()
    assert [record.positions for record in read(path, skipped)] == [(1,)] and not skipped.counts


def table(tmp_path, header: str, *rows: str) -> tuple[list[Tally], dict[str, int]]:
    """The records of a table, and the reasons of skipped lines with their number."""
    path, skipped = tmp_path / "log.tsv", Skipped()
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return list(read(path, skipped)), dict(skipped.counts)


def test_columns_may_be_in_any_order_and_cells_empty(tmp_path):
    """Nothing in a cell: no click, and position 1, which is also the least position. Not more than one click: an event."""
    rows = ["D1\t\t2\tTap", "D2\t3\t0\tTap", "D3\t0.25\t\tTap", "\t2\t1\tTap"]
    records, reasons = table(tmp_path, "url\trank\tclicked\ttext", *rows)
    assert records == [Tally("tap", "D1", 2, 0, 1.0), Tally("tap", "D2", 0, 1, 3.0), Tally("tap", "D3", 0, 1, 1.0)]
    assert reasons == {"no docid": 1}


def test_the_largest_numbers_of_a_table(tmp_path):
    """Clicks are whole in 64-bit floats, ranks have 32 bits."""
    rows = [f"q\ta\t{2**53}\t{2**31 - 1}", f"q\tb\t{2**53 + 2}\t1", f"q\tc\t1\t{2**31}"]
    records, reasons = table(tmp_path, "query\tdocid\tclicks\tposition", *rows)
    assert records == [Tally("q", "a", 2**53, 0, 2.0**31 - 1)]
    assert reasons == {"clicks too large": 1, "position too large": 1}


def test_counts_of_a_table_are_whole_and_clicks_at_most_impressions(tmp_path):
    rows = [
        "q\ta\t1\t1",
        "q\tb\t0\t0",
        "q\tc\t0\t4",
        "q\td\t2\t1",
        "q\te\t1.5\t2",
        "q\tf\t1\t2.5",
        " \tg\t1\t1",
        "q\th\tinf\t1",
    ]
    records, reasons = table(tmp_path, "query\tdocid\tclicks\timpressions", *rows)
    assert [(record.docid, record.clicks, record.impressions) for record in records] == [("a", 1, 1), ("b", 0, 0), ("c", 0, 4)]
    assert reasons == {
        "more clicks than impressions": 1,
        "clicks or impressions not whole": 2,
        "empty query": 1,
        "clicks negative or not finite": 1,
    }


def sessions(tmp_path, *items) -> tuple[list[Impression], dict[str, int]]:
    """The records of sessions with these items, and the reasons of skipped lines with their number."""
    path, skipped = tmp_path / "log.jsonl", Skipped()
    path.write_text("".join(json.dumps({"query": "q", "items": entry}) + "\n" for entry in items), encoding="utf-8")
    return list(read(path, skipped)), dict(skipped.counts)


def test_items_are_a_list_of_objects(tmp_path):
    records, reasons = sessions(tmp_path, "ab", [], {"docid": "a"}, None, ["a"], [{"docid": "", "clicked": True}])
    assert records == []
    assert reasons == {"no items": 4, "an item that is not an object": 1, "an item without docid": 1}


def test_docids_may_be_whole_numbers_of_64_bits(tmp_path):
    good = [{"docid": number, "clicked": False} for number in (2**63 - 1, 1 - 2**63, 0)]
    bad = [[{"docid": number, "clicked": False}] for number in (2**63, -(2**63), 2**64, 1.5, True)]
    records, reasons = sessions(tmp_path, good, *bad)
    assert [record.docids for record in records] == [(str(2**63 - 1), str(1 - 2**63), "0")]
    assert reasons == {"an item without docid": 5}


@pytest.mark.parametrize("flag", [2, "yes", None, 0.5])
def test_a_flag_is_true_or_false_or_one_or_zero(tmp_path, flag):
    records, reasons = sessions(
        tmp_path, [{"docid": "a", "clicked": 1}, {"docid": "b", "clicked": 0}], [{"docid": "a", "clicked": flag}]
    )
    assert [record.clicked for record in records] == [(True, False)] and type(records[0].clicked[0]) is bool
    assert reasons == {"an item without clicked flag": 1}


@pytest.mark.parametrize("rank", [0, -1, 1.0, "1", True])
def test_a_rank_is_a_whole_number_from_one(tmp_path, rank):
    records, reasons = sessions(
        tmp_path, [{"docid": "a", "clicked": True, "rank": 7}, {"docid": "b", "clicked": False}],
        [{"docid": "a", "clicked": True, "rank": rank}],
    )  # fmt: skip
    assert [record.positions for record in records] == [(7, 2)]
    assert reasons == {"a rank that is not a whole number from 1": 1}
