"""What the verbs share at the terminal: errors as one line with status 2, progress bars, plain tables."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

from kernelsearch.core.errors import KernelSearchError

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """An argument parser whose help keeps its examples as written and whose complaints are one line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (--help lists the options)", file=sys.stderr)
        raise SystemExit(2)


def run(main: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a verb: 0 when it ends well, 2 and one line on stderr for what the user can mend, 130 after Ctrl-C."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    # A polite end (kill, a batch system's time limit) cleans up like an error: partial files vanish.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.unraisablehook = _send_again
    try:
        main(arguments)
        sys.stdout.flush()
        status = 0
    except KernelSearchError as problem:
        print(f"kernelsearch: {' '.join(str(problem).split())}", file=sys.stderr)
        status = 2
    except KeyboardInterrupt:
        print("kernelsearch: interrupted, nothing was written", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error of ours. Python must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + signal.SIGPIPE
    raise SystemExit(status)


def _send_again(lost: Any) -> None:
    """Sends a signal again whose exception was raised where Python drops exceptions, as in a weak reference's callback."""
    if isinstance(lost.exc_value, SystemExit | KeyboardInterrupt):
        number = signal.SIGTERM if isinstance(lost.exc_value, SystemExit) else signal.SIGINT
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def progress(items: Iterable[T] | None = None, *, total: int | None = None, label: str = "", unit: str = "it") -> Any:
    """A progress bar on stderr, shown only on a terminal. Wraps an iterable, or gives a bar with `.update(n)`.

    Other threads than the main one show none: a Dask worker's tasks run in them, and their driver has a bar already.
    """
    from tqdm import tqdm

    shown = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    return tqdm(
        items,
        total=total,
        desc=label or None,
        unit=unit,
        disable=not shown,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
        smoothing=0.1,
    )


def notice(message: str) -> None:
    """One line on stderr for people, never mixed with output."""
    print(message, file=sys.stderr)


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str = "") -> str:
    """A plain text table; `align` has one of < and > a column (numbers are usually >)."""
    cells = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(header), *cells]), strict=True)) if header else []
    widths = [max(len(cell) for cell in column) for column in columns]
    align = align or "<" + ">" * (len(header) - 1)
    out = []
    for number, row in enumerate([list(header), *cells]):
        out.append("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
    return "\n".join(out)
