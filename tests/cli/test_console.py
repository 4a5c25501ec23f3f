"""What verbs share at the terminal: signals, and flags that are not known."""

import signal
import subprocess
import sys

import pytest

from kernelsearch import search as search_verb
from kernelsearch.cli import console
from tests.conftest import ROOT, heeding_interrupts

LOST = """
import signal, sys, time, weakref
from kernelsearch.cli import console

class Thing:
    pass

def main(arguments):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: signal.raise_signal(int(arguments[0])))
    del thing  # Python drops what is raised inside the callback
    time.sleep(20)
    print("went on")

console.run(main, sys.argv[1:])
"""


@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_is_not_lost_where_python_drops_exceptions(stop, status):
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(int(stop))],
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=heeding_interrupts,
        timeout=60,
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert "ignored" not in done.stderr


def test_a_long_path_does_not_hide_the_message():
    line = console.one_line(f"{'a' * 500}/{'b' * 500}: no such file")
    assert line == f"{'a' * 120}...{'b' * 119}: no such file"


@pytest.mark.parametrize(
    ("flag", "hint"),
    [
        ("--rerenk", "kernelsearch: --rerenk: unknown option; did you mean --rerank?"),
        ("--klsa.lamda", "kernelsearch: --klsa.lamda: unknown option; did you mean --klsa.lambda?"),
        ("--nonsense", "unrecognized arguments: --nonsense klsa (--help lists the options)"),
    ],
)
def test_an_unknown_flag_is_answered_with_the_nearest(capsys, flag, hint):
    with pytest.raises(SystemExit) as ended:
        console.run(search_verb.main, ["--index", "i", "--query", "tap", flag, "klsa"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(hint)
