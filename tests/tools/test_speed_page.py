"""The page of speeds says where a peer is faster, and what was not compared."""

import argparse
import sys
from pathlib import Path

import pytest

from tools.bench import speed

ARGUMENTS = argparse.Namespace(repetitions=3, documents=1000)


def test_a_row_has_medians_and_the_range_of_the_ratios():
    ours, theirs = iter([9.0, 1.0, 3.0, 2.0]), iter([9.0, 2.0, 2.0, 2.0])
    pair = speed.Pair("path", "peer", lambda: next(ours), lambda: next(theirs), warm_up=1)
    assert speed.measure(pair, 3) == ("path", "peer", "2,000", "2,000", "1.00", "0.50 to 1.50")


def test_the_page_names_the_paths_at_which_a_peer_is_faster():
    rows = [("search", "one", "1", "2", "0.50", "0.40 to 0.60"), ("basis", "other", "3", "2", "1.50", "1.40 to 1.60")]
    text = speed.page(rows, ["gensim"], ARGUMENTS, 2.0)
    assert "A peer is faster at: basis (other, 1.50 times its CPU time)." in text
    assert "not compared: gensim." in text and "| search | one | 1 | 2 | 0.50 | 0.40 to 0.60 |" in text
    assert "A peer is faster at: nothing in this table." in speed.page(rows[:1], [], ARGUMENTS, 2.0)


def test_a_peer_that_is_not_installed_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError, match="gensim"):
        speed.PeerProcess(Path(sys.executable), "gensim", tmp_path)
    assert speed.with_peer("gensim", Path(sys.executable), tmp_path, "path", "peer", int) == ([], ["gensim"])


def test_cpu_time_counts_the_processes_that_the_work_starts():
    import subprocess

    busy = "sum(range(3_000_000))"
    alone, started = (
        speed.cpu_time(work)() for work in (lambda: None, lambda: subprocess.run([sys.executable, "-c", busy], check=True))
    )
    assert started > alone + 0.01
