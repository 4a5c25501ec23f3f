"""What verbs share at the terminal: signals."""

import signal
import subprocess
import sys

import pytest

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
