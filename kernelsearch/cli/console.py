"""The terminal: errors as one line with exit status 2, progress bars, messages on stderr."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from kernelsearch.core.errors import Flag, KernelSearchError, OptionError, closest, quote
from kernelsearch.core.plugins import plugin_error
from kernelsearch.core.progress import Bar
from kernelsearch.core.tables import text_table

#: Exit status of an internal error (EX_SOFTWARE of sysexits.h).
INTERNAL = 70


#: Examples in the short help; `--help-all` has the others.
SHOWN_EXAMPLES = 3
#: How the title of a group with a method's options begins.
_METHOD = re.compile(r"--rerank |rerank=")


#: Flags that verbs had, and what takes their place.
MOVED = {
    "max-line": "gone; lines of up to 64 MB are read",
    "max-input": "gone; a gzip file may expand 250 times",
    "pipe-wait": "gone; a named pipe is waited for",
    "workers": "said in the engine: --engine dask:N",
    "scheduler": "said in the engine: --engine tcp://HOST:8786",
    "ltr": "python -m kernelsearch.ltr learns from files of features",
    "ltr-test": "python -m kernelsearch.ltr measures a model on a file of features",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose help begins with what the command does and examples, and which prints errors as one line.

    `--help` fits a screen. It describes the options that most calls need, `common`, by default all but those of groups; `--help
    PART` describes a group of options, such as those of a method, and `--help-all` everything. It leaves out the methods
    in `apart`, which `--help papers` lists. The epilog has examples below a line `examples:`, up to an empty line; help prints
    them and what follows them as written. `refuse` is called with the name of an unknown flag, and may raise a better error.
    """

    def __init__(
        self,
        *args: Any,
        common: Sequence[str] = (),
        apart: Collection[str] = (),
        refuse: Callable[[str], None] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        kwargs["add_help"] = False
        super().__init__(*args, **kwargs)
        self.common, self.apart, self.refuse = tuple(common), apart, refuse
        text = "show the options that most calls need, or those of PART"
        self.add_argument("-h", "--help", action=_Help, nargs="?", metavar="PART", default=argparse.SUPPRESS, help=text)
        text = "show all options"
        self.add_argument("--help-all", action=_HelpAll, nargs=0, default=argparse.SUPPRESS, help=text)
        group = self.add_argument_group("errors")
        group.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="print the traceback of an internal error"
        )

    def parts(self) -> dict[str, Any]:
        """The groups of options that `--help PART` describes, by name.

        The name is "klsa" for a group "--rerank klsa: ...", or "rerank=klsa: ..." where requests choose the method.
        """
        groups = self._action_groups[2:]  # the first two are argparse's own
        return {_METHOD.sub("", group.title or "").partition(":")[0]: group for group in groups}

    def format_common(self) -> str:
        """The help text of the common options."""
        flags = self._option_string_actions
        arguments = self._positionals._group_actions
        options = [flags[f"--{name}"] for name in self.common] or self._optionals._group_actions[2:]  # after the two of help
        heading = "options that most calls need" if self.common else "options"
        formatter = self._get_formatter()
        formatter.add_usage(None, arguments, [], prefix="")
        words = " ".join(formatter.format_help().split()).removeprefix(self.prog)
        examples, remarks = _split_epilog(self.epilog or "")
        formatter = self._get_formatter()
        formatter.add_usage(f"{self.prog} [options]{words}", [], [], prefix="usage: ")
        formatter.add_text(_wrap(self.description or ""))
        if examples:
            formatter.add_text("examples:\n" + "\n".join(examples[:SHOWN_EXAMPLES]))
        for title, actions in (("arguments", arguments), (heading, options)):
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        methods = {name: group.title for name, group in self.parts().items() if _METHOD.match(group.title)}
        if methods:
            formatter.add_text(self._format_methods([name for name in methods if name not in self.apart]))
        others = [name for name in self.parts() if name not in methods]
        parts = (
            [f'--help "{name}"' for name in others] + ["--help METHOD"] * bool(methods) + ["--help papers"] * bool(self.apart)
        )
        if remarks and not methods:
            # Lines of a sentence are joined before they are broken at the terminal's width.
            formatter.add_text(_wrap(re.sub(r"(?<=[^.:\n])\n(?=\S)", " ", remarks)))
        formatter.add_text(_wrap(f"more options: {', '.join(parts)}, --help-all", indent=2))
        return _as_called(formatter.format_help())

    def _format_methods(self, names: Sequence[str]) -> str:
        """The methods of these names, a line or more for each."""
        parts, chosen_by = (
            self.parts(),
            "--rerank" if "--rerank" in self._option_string_actions else "requests with rerank=METHOD",
        )
        lines = (_wrap(f"  {name:<13} {parts[name].title.partition(': ')[2]}", indent=16) for name in names)
        return "\n".join([f"methods for {chosen_by}:", *lines])

    def format_part(self, name: str) -> str:
        """The help text of one group of options; ends the command where there is none of that name."""
        parts = self.parts()
        if name == "papers" and self.apart:
            named = self._format_methods([part for part in parts if part in self.apart])
            return f"{named}\n\n--help METHOD lists the options of one\n"
        if name not in parts:
            self.error(f"--help: no part {name!r}; there are {', '.join(parts)}")
        formatter = self._get_formatter()
        formatter.start_section(parts[name].title)
        formatter.add_arguments(parts[name]._group_actions)
        formatter.end_section()
        return _as_called(formatter.format_help())

    def format_help(self) -> str:
        """The help text of all options, without those of the methods in `apart`."""
        groups, parts = self._action_groups, self.parts()
        self._action_groups = [group for group in groups if not any(group is parts.get(name) for name in self.apart)]
        try:
            return _as_called(super().format_help())
        finally:
            self._action_groups = groups

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it with `args` and `namespace`, with a suggestion for an unknown flag."""
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            flag, hint = unknown[0].partition("=")[0], ""
            if not flag.startswith("--"):
                hint = "; a query is named by --query, in quotes" if "--query" in self._option_string_actions else ""
            elif flag[2:] in MOVED:
                raise OptionError(MOVED[flag[2:]], option=Flag(flag[2:]))
            elif self.refuse is not None:
                self.refuse(flag[2:])
            names = [name[2:] for name in self._option_string_actions] if flag.startswith("--") else []
            if near := closest(flag[2:], names, cutoff=0.65):
                raise OptionError("unknown option; did you mean ", Flag(near), "?", option=Flag(flag[2:]))
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return arguments

    def error(self, message: str) -> NoReturn:
        """Prints `message` as one line on stderr and exits with status 2."""
        print(one_line(_as_called(f"{self.prog}: {message} (--help lists the options)")), file=sys.stderr)
        raise SystemExit(2)


def _as_called(text: str) -> str:
    """The text with `kernelsearch VERB` for `python -m kernelsearch.VERB` where that script was called."""
    called = os.path.basename(sys.argv[0]).removesuffix(".exe")
    return text.replace("python -m kernelsearch.", "kernelsearch ") if called == "kernelsearch" else text


def _wrap(text: str, indent: int = 0) -> str:
    """The text with lines that are wider than the terminal broken between words; `indent` is that of the further lines."""
    width = shutil.get_terminal_size().columns - 2  # as argparse wraps the descriptions of options
    return "\n".join(
        "\n".join(textwrap.wrap(line, max(width, 40), subsequent_indent=" " * indent, break_long_words=False)) if line else line
        for line in text.split("\n")
    )


def _split_epilog(epilog: str) -> tuple[list[str], str]:
    """The examples of an epilog, each with the lines that continue it, and its other text."""
    before, heading, rest = epilog.partition("examples:\n")
    if not heading:
        return [], epilog.strip()
    lines, _, after = rest.partition("\n\n")
    examples = re.split(r"(?<!\\)\n", lines.rstrip())
    return examples, "\n\n".join(text.strip() for text in (before, after) if text.strip())


class _Help(argparse.Action):
    """Prints the common options, or those of one part, and exits."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        assert isinstance(parser, Parser)
        print(parser.format_common() if values is None else parser.format_part(values), end="")
        parser.exit()


class _HelpAll(argparse.Action):
    """Prints all options and exits."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        print(parser.format_help(), end="")
        parser.exit()


#: Longest message of an error, in characters.
MESSAGE = 2000


def one_line(message: str) -> str:
    """A message on one line of at most MESSAGE characters, without control characters."""
    line = _LONG_WORD.sub(lambda match: f"{match[0][:120]}...{match[0][-120:]}", printable(" ".join(message.split())))
    return line if len(line) <= MESSAGE else f"{line[:MESSAGE]}..."


#: A path or other word that hides the rest of a message.
_LONG_WORD = re.compile(r"\S{301,}")


def printable(text: str) -> str:
    """The text with control characters (except line breaks and tabs) escaped: documents cannot send commands to the terminal.

    Those that `json.dumps` leaves as they are, from DEL on, are escaped as in JSON, so that JSON which is shown stays JSON.

    >>> printable("a\\x1b[2J\\tb\\x92")
    'a\\\\x1b[2J\\tb\\\\u0092'
    """
    return _CONTROL.sub(_escaped, text)


def _escaped(control: re.Match[str]) -> str:
    return f"\\u{ord(control[0]):04x}" if control[0] >= "\x7f" else control[0].encode("unicode_escape").decode()


#: C0 and C1 control characters, and those that change the direction of text, which can make a line read in another order.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def show(text: str, end: str = "\n") -> None:
    """Prints `text` and `end` on stdout, with control characters escaped."""
    print(printable(text), end=end)


def show_documents(
    header: Sequence[str], rows: Sequence[Sequence[str]], snippets: Sequence[str], words: set[str], *, align: str
) -> None:
    """Prints a table of `header` and `rows`, aligned as in `text_table`, with the documents' `snippets` as its last column.

    On a terminal the query's `words` are in colour in the snippets.
    """
    whole_rows = [(*row, snippet) for row, snippet in zip(rows, snippets, strict=True)]
    table = text_table((*header, "text"), whole_rows, align=f"{align}<")
    first, *lines = printable(table).split("\n")
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from kernelsearch.api.results import highlight  # what --help does not need

        place = first.rindex("text")
        lines = [line[:place] + highlight(line[place:], words) for line in lines]
    print("\n".join([first, *lines]))


def text_width(header: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Characters that a table of `header` and `rows` leaves to a last column on a line of the terminal, at least 20."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return max(20, shutil.get_terminal_size((120, 20)).columns - sum(widths) - 2 * len(widths))


def show_lines(lines: Sequence[str]) -> None:
    """Prints lines; on a terminal, what is wider than it goes on below with an indentation."""
    show("\n".join(_wrap(line, indent=12) for line in lines) if sys.stdout.isatty() else "\n".join(lines))


def run(main: Callable[[list[str]], None], argv: Sequence[str] | None = None) -> NoReturn:
    """Runs `main`, the function of a verb, and exits.

    Status 0 on success; 2 with one line on stderr for an error of the user; 70 with one line for an internal error, whose
    traceback `--debug` prints; 130 after Ctrl-C. `argv` are the arguments; default: those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    # SIGTERM (kill, the time limit of a batch system) is handled like an error, so that partial files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.unraisablehook = _repeat_signal
    show_messages()
    try:
        for word in arguments:
            if not word.isascii() and any("\ud800" <= letter <= "\udfff" for letter in word):
                raise OptionError(f"argument {quote(word)} is not valid UTF-8")
        main(arguments)
        sys.stdout.flush()
        status = 0
    except KernelSearchError as problem:
        _report(problem.message(Flag.on_command_line), problem, debug)
        status = 2
    except KeyboardInterrupt:
        print("kernelsearch: interrupted, nothing was written", file=sys.stderr)
        status = 130
    except BrokenPipeError:
        # The reader of the output has closed it (`| head`), which is no error. Python must not flush into it at exit.
        _drop_output()
        status = 128 + signal.SIGPIPE
    except OSError as problem:
        # The machine's problem, such as a full disk under stdout, and not one of the code.
        name = f"{problem.filename}: " if problem.filename else ""
        _report(str(plugin_error(problem) or f"{name}{problem.strerror or problem}"), problem, debug)
        _drop_output()
        status = 2
    except MemoryError as problem:
        _report(f"out of memory ({problem})" if str(problem) else "out of memory", problem, debug)
        status = 2
    except Exception as problem:
        blamed = plugin_error(problem)
        internal = f"internal error, please report it: {type(problem).__name__}: {problem} (--debug prints where)"
        _report(internal if blamed is None else str(blamed), problem, debug)
        status = INTERNAL if blamed is None else 2
    raise SystemExit(status)


def _report(message: str, problem: BaseException, debug: bool) -> None:
    """Prints one line on stderr, after the traceback if `debug`."""
    if debug:
        traceback.print_exception(problem)
    print(one_line(f"kernelsearch: {message}"), file=sys.stderr)


def _drop_output() -> None:
    """Python must not flush into stdout at exit where nothing can be written any more."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _repeat_signal(lost: sys.UnraisableHookArgs) -> None:
    """Repeats a signal whose exception was raised where Python drops exceptions, as in the callback of a weak reference."""
    if isinstance(lost.exc_value, SystemExit | KeyboardInterrupt):
        number = signal.SIGTERM if isinstance(lost.exc_value, SystemExit) else signal.SIGINT
        timer = threading.Timer(0.05, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()
    else:
        sys.__unraisablehook__(lost)


class _TqdmBar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def update(self, steps: int = 1, /) -> None:
        self._bar.update(steps)

    def note(self, text: str, /) -> None:
        self._bar.set_postfix_str(text, refresh=False)


@contextmanager
def progress(label: str, *, total: int | None = None, unit: str = "it") -> Iterator[Bar]:
    """A progress bar on stderr, shown only on a terminal and in the main thread.

    Tasks of a Dask worker run in other threads, and their driver has a bar already. The parameters are those of
    `core.progress.Progress`: `label` is the text before the bar, `total` the number of steps where it is known, `unit` the name
    of one.
    """
    from tqdm import tqdm

    shown = sys.stderr.isatty() and threading.current_thread() is threading.main_thread()
    with tqdm(
        total=total,
        desc=label or None,
        unit=unit,
        disable=not shown,
        file=sys.stderr,
        leave=False,
        dynamic_ncols=True,
        smoothing=0.1,
    ) as bar:
        yield _TqdmBar(bar)


def with_flags(record: logging.LogRecord) -> str:
    """The message of the log `record`, with options and errors in it written as on the command line."""
    written = logging.makeLogRecord(vars(record))
    if isinstance(record.args, tuple):
        written.args = tuple(_as_typed(part) for part in record.args)
    return written.getMessage()


def _as_typed(part: object) -> object:
    """The text of an option or an error in a message as on the command line; other values as they are."""
    match part:
        case Flag():
            return part.on_command_line()
        case KernelSearchError():
            return part.message(Flag.on_command_line)
    return part


class _StderrHandler(logging.Handler):
    """Prints messages of the library to stderr, without a prefix."""

    def emit(self, record: logging.LogRecord) -> None:
        print(printable(with_flags(record)), file=sys.stderr)


class _StdoutHandler(logging.Handler):
    """Prints lines that the user asked for to stdout."""

    def emit(self, record: logging.LogRecord) -> None:
        show(record.getMessage())


def show_messages() -> None:
    """Prints what the library logs at level INFO and above; further calls have no effect.

    Messages go to stderr, the lines of `kernelsearch.output` (`--pert-paper.save-queries -`) to stdout.
    """
    library = logging.getLogger("kernelsearch")
    if not any(isinstance(handler, _StderrHandler) for handler in library.handlers):
        library.addHandler(_StderrHandler())
        library.setLevel(logging.INFO)
        library.propagate = False
        output = logging.getLogger("kernelsearch.output")
        output.addHandler(_StdoutHandler())
        output.propagate = False


def notice(message: str) -> None:
    """Prints `message` as one line on stderr, apart from the output."""
    print(printable(message), file=sys.stderr)
