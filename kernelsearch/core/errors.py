"""The exceptions of kernelsearch. A message names the file or option, what was found and what to do about it.

Code writes options as flags, `--klsa.fold-in`. The command line shows them so; elsewhere the exceptions write them as keywords,
`klsa_fold_in`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches

#: A flag in a message, outside of quotes.
_FLAG = re.compile(r"""(?<![\w`'"/-])--(no-)?([a-z][a-z0-9]*(?:[.-][a-z0-9]+)*)""")
#: Commands of the shell keep their flags.
_COMMAND = re.compile(r"python -m |pip install |jq -|`")

_keep_flags = False


def show_flags(shown: bool = True) -> bool:
    """Makes messages of exceptions name options as flags from now on, as the command line does; returns whether they did.

    With `shown` False they name them as keywords again.
    """
    global _keep_flags
    before, _keep_flags = _keep_flags, shown
    return before


def spell_options(message: str) -> str:
    """The message as its reader knows options: as it is on the command line, else with keywords of Python for flags."""
    return message if _keep_flags else as_keywords(message)


def as_keywords(message: str) -> str:
    """The message with keywords of Python for flags, up to the first command of the shell in it.

    >>> as_keywords("--klsa.fold-in: needs --rerank klsa; --no-complete leaves topics out")
    'klsa_fold_in: needs rerank klsa; complete=False leaves topics out'
    """
    command = _COMMAND.search(message)
    end = command.start() if command else len(message)
    return _FLAG.sub(_keyword, message[:end]) + message[end:]


def _keyword(flag: re.Match[str]) -> str:
    name = flag[2].replace(".", "_").replace("-", "_")
    return f"{name}=False" if flag[1] else name


class KernelSearchError(Exception):
    """A problem that the user can fix. The command line prints the message on one line and exits with status 2."""

    def __str__(self) -> str:
        return spell_options(super().__str__())


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
    matches = get_close_matches(name[:100], known, n=1, cutoff=cutoff)
    return f"; did you mean {matches[0]}?" if matches else ""
