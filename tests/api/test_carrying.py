"""What `index --force` keeps: clicks can't be made again."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.api import carrying
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import artefacts
from kernelsearch.core.errors import BusyError
from kernelsearch.rerankers.fusion import model as models
from tests.conftest import TINY, write_jsonl


def test_clicks_are_carried_over_and_what_is_dropped_is_named(tmp_path, capsys):
    source = write_jsonl(tmp_path / "c.jsonl", TINY)
    flags = ["--input", str(source), "--index", str(tmp_path / "i")]
    index_verb.main(flags)
    added = tmp_path / "i" / "kernelsearch"
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "tap", "items": [{"docid": "d2", "clicked": True}]}])
    import_log([tmp_path / "log.jsonl"], added / "clicks.db")
    before = list(ClickLog(added / "clicks.db").all_queries())
    artefacts.save(added / "fusion", models.KIND, models.VERSION, arrays={"weights": np.ones(2)}, parameters={})
    artefacts.save(added / "klsa", "latent basis", 1, arrays={"rows": np.ones((2, 2))})
    capsys.readouterr()
    index_verb.main([*flags, "--force"])
    messages = capsys.readouterr().err
    assert before and list(ClickLog(added / "clicks.db").all_queries()) == before
    assert (added / "replaced" / "fusion" / "weights.npy").exists()
    assert not (added / "klsa").exists() and not (added / "fusion").exists()
    assert "recorded clicks are carried over" in messages
    assert "the trained model fusion is kept in kernelsearch/replaced" in messages
    assert "dropped with the old index, to be made again: klsa" in messages
    index_verb.main([*flags, "--force"])
    assert (added / "replaced" / "fusion" / "weights.npy").exists() and (added / "clicks.db").exists()
    assert len(kernelsearch.open(tmp_path / "i").forward) == 6


#: Adds a click to a database, which stays in its write-ahead log because the process ends at once.
CLICKING = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode = WAL")
database.execute("INSERT INTO queries(text, impressions, clicks) VALUES ('frozen pipe', 1, 1)")
database.commit()
os._exit(0)
"""


@pytest.fixture
def clicked(tiny_path, tmp_path):
    """An index with a click database, and the flags that build it."""
    shutil.copytree(tiny_path, tmp_path / "i")
    database = tmp_path / "i" / "kernelsearch" / "clicks.db"
    write_jsonl(tmp_path / "log.jsonl", [{"session": "s", "query": "tap", "items": [{"docid": "d2", "clicked": True}]}])
    import_log([tmp_path / "log.jsonl"], database)
    return database, ["--input", str(write_jsonl(tmp_path / "c.jsonl", TINY)), "--index", str(tmp_path / "i"), "--force"]


def test_a_click_that_is_only_in_the_write_ahead_log_is_carried_over(clicked):
    database, flags = clicked
    subprocess.run([sys.executable, "-c", CLICKING, str(database)], check=True)
    assert b"frozen pipe" in Path(f"{database}-wal").read_bytes() and b"frozen pipe" not in database.read_bytes()
    index_verb.main(flags)
    assert sorted(text for _, text in ClickLog(database).all_queries()) == ["frozen pipe", "tap"]
    assert b"frozen pipe" in database.read_bytes()


def test_a_click_database_that_sqlite_cannot_read_is_kept_with_its_side_files(clicked):
    database, flags = clicked
    database.write_bytes(b"damaged" * 1000)
    Path(f"{database}-wal").write_bytes(b"log")
    index_verb.main(flags)
    assert database.read_bytes() == b"damaged" * 1000
    assert Path(f"{database}-wal").read_bytes() == b"log"


def test_a_locked_click_database_keeps_the_old_index(clicked, monkeypatch):
    database, flags = clicked
    monkeypatch.setattr(carrying, "LOCK_WAIT", 0.3)
    inode = database.parent.parent.stat().st_ino
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(BusyError, match=r"clicks\.db: locked by another process"):
            index_verb.main(flags)
    assert database.parent.parent.stat().st_ino == inode
    assert [text for _, text in ClickLog(database).all_queries()] == ["tap"]
