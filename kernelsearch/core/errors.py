"""The exceptions of kernelsearch. A message names the file or option, what was found and what to do about it.

An exception carries its parts: the option, the path, the line and the reason, in which other options and paths are values of
their own. Who shows it writes options in the reader's form: `--klsa.fold-in` on the command line, `klsa_fold_in` in Python (as
`str` does), `klsa.fold-in` in requests and config files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

#: The end of the name `.NAME.RANDOM.partial` of a temporary folder (`core.replacing`), and the whole name.
RANDOM = r"\.[0-9a-f]{12}\.partial"
TEMPORARY = re.compile(rf"\.(.+){RANDOM}")


@dataclass(frozen=True)
class Flag:
    """An option in a message: its `name`, the `owner` (a method) that it belongs to, and a `value` where one is meant.

    >>> fold_in, rerank = Flag("fold-in", "klsa"), Flag("rerank", value="klsa")
    >>> fold_in.on_command_line(), fold_in.in_python(), fold_in.in_request()
    ('--klsa.fold-in', 'klsa_fold_in', 'klsa.fold-in')
    >>> rerank.on_command_line(), rerank.in_python(), rerank.in_request()
    ('--rerank klsa', "rerank='klsa'", 'rerank=klsa')
    """

    name: str
    owner: str = ""
    value: object = None

    def on_command_line(self) -> str:
        """The flag of the command line; that of a switch is `--no-name` for False."""
        prefix = f"--{self.owner}." if self.owner else "--"
        if isinstance(self.value, bool):
            return f"{prefix}{self.name}" if self.value else f"{prefix}no-{self.name}"
        return f"{prefix}{self.name}" if self.value is None else f"{prefix}{self.name} {self.value}"

    def in_python(self) -> str:
        """The keyword of Python."""
        key = "_".join(filter(None, (self.owner, self.name))).replace("-", "_").replace(".", "_")
        return key if self.value is None else f"{key}={self.value!r}"

    def in_request(self) -> str:
        """The name in a request and in a config file."""
        name = ".".join(filter(None, (self.owner, self.name)))
        value = str(self.value).lower() if isinstance(self.value, bool) else self.value
        return name if value is None else f"{name}={value}"

    def __str__(self) -> str:
        return self.in_python()


def final_path(path: Path) -> Path:
    """Returns where what is in a temporary folder will be, for messages; any other path as it is.

    >>> final_path(Path("indexes/.wapo.0123456789ab.partial/wapo/_0.cfs"))
    PosixPath('indexes/wapo/_0.cfs')
    """
    return Path(*(part for part in path.parts if not TEMPORARY.fullmatch(part)))


def shown_path(path: str | Path) -> str:
    """A path in a message: control characters and invalid UTF-8 are escaped, and the middle of a very long path is left out.

    A temporary folder in it is left out, too.
    """
    text = str(final_path(path) if isinstance(path, Path) else path).encode("utf-8", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)
    return text if len(text) <= 300 else f"{text[:120]}...{text[-120:]}"


class KernelSearchError(Exception):
    """A problem that the user can fix. The command line prints the message on one line and exits with status 2.

    `reason` are texts, and between them the `Flag` of an option, a Path or another KernelSearchError. Before it the message
    names the `option`, the `path` (a file, or the text that stands for it) and the `line`, where they are given.

    >>> print(OptionError("0 is below 1; see ", Flag("lambda", "klsa"), option=Flag("z", "klsa")))
    klsa_z: 0 is below 1; see klsa_lambda
    """

    def __init__(
        self, *reason: object, option: Flag | None = None, path: str | Path | None = None, line: int | None = None
    ) -> None:
        super().__init__(*reason)
        self.option, self.path, self.line = option, path, line

    def message(self, flag: Callable[[Flag], str] = Flag.in_python, path: Callable[[str | Path], str] = shown_path) -> str:
        """The message, with options written by `flag` and paths by `path`."""
        before = [] if self.option is None else [flag(self.option)]
        if self.path is not None:
            before.append(path(self.path))
        if self.line is not None:
            before.append(f"line {self.line}")
        return ": ".join([*before, self._reason(flag, path)])

    def _reason(self, flag: Callable[[Flag], str], path: Callable[[str | Path], str]) -> str:
        texts = []
        for part in self.args:
            match part:
                case Flag():
                    texts.append(flag(part))
                case Path():
                    texts.append(path(part))
                case KernelSearchError():
                    texts.append(part.message(flag, path))
                case _:
                    texts.append(str(part))
        return "".join(texts)

    def __str__(self) -> str:
        return self.message()

    def change_parts(self, path: Callable[[str | Path], str | Path], text: Callable[[str], str] = str) -> None:
        """Replaces paths by `path` of them and texts of the reason by `text` of them, those of an error in the reason, too."""
        parts: list[object] = []
        for part in self.args:
            if isinstance(part, KernelSearchError):
                part.change_parts(path, text)
            parts.append(path(part) if isinstance(part, Path) else text(part) if isinstance(part, str) else part)
        self.args = tuple(parts)
        if self.path is not None:
            self.path = path(self.path)

    def relocate(self, old: Path, new: str | Path) -> None:
        """Names paths in the folder `old`, or itself, as in `new`: that is where the files belong in the end."""
        self.change_parts(lambda path: Path(new) / Path(path).relative_to(old) if Path(path).is_relative_to(old) else path)


class InputError(KernelSearchError):
    """A file that is missing, empty, malformed or inconsistent with the index."""


class DiskFull(InputError):
    """No space is left for a file that is written."""


class EncodingError(InputError):
    """A text file with bytes that are not valid in its encoding."""


class ClickLogError(InputError):
    """A click log that is damaged, of another format, or can't be read or written."""


class OptionError(KernelSearchError):
    """An option with an unknown name or a value that it doesn't take."""


class JavaError(KernelSearchError):
    """No usable Java, a JVM that doesn't start, or an unexpected Java exception."""


class IndexProblem(KernelSearchError):
    """A Lucene index that is missing, unreadable, or lacks what a method needs."""


class ArtefactError(KernelSearchError):
    """A saved artefact that is missing, cut short, of another format or made for another index."""


class IndexReplaced(IndexProblem):
    """The index's folder holds another state than the one that was opened."""


class BusyError(KernelSearchError):
    """A file that another process has locked for too long."""


def quote(value: object, most: int = 120) -> str:
    """Returns the representation of a value for a message: its control characters escaped, cut to `most` characters.

    >>> quote("a" * 500, most=8)
    "'aaa...'"
    """
    if isinstance(value, str | bytes):
        cut = value[:most]
        text = repr(cut)
        return text if len(text) <= most and len(cut) == len(value) else f"{text[: most - 4]}...{text[-1]}"
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 1000 else f"{value.bit_length()} bits"
    return text if len(text) <= most else f"{text[:most]}..."


def short(text: str, most: int = 120) -> str:
    """Returns a text for a message without quotes, as `quote` escapes and cuts it to `most` characters.

    >>> short("a b")
    'a b'
    """
    return quote(text, most)[1:-1]


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Returns the end of a message about an unknown name, which suggests the known name that is most like it, if one is.

    `cutoff`, between 0 and 1, is the least likeness (difflib's ratio).

    >>> nearest("ksla", ["auto", "klsa"]), nearest("other", ["auto", "klsa"])
    ('; did you mean klsa?', '')
    """
    name = closest(name, known, cutoff)
    return f"; did you mean {name}?" if name else ""


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known name that is most like an unknown one, "" where none is; `cutoff` is that of `nearest`."""
    return next(iter(get_close_matches(name[:100], known, n=1, cutoff=cutoff)), "")
