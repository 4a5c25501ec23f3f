"""The exceptions of kernelsearch. A message names the file or option, what was found and what to do about it."""

from collections.abc import Iterable
from difflib import get_close_matches


class KernelSearchError(Exception):
    """A problem that the user can fix. The command line prints the message on one line and exits with status 2."""


class InputError(KernelSearchError):
    """A file that is missing, empty, malformed or inconsistent with the index."""


class EncodingError(InputError):
    """A text file with bytes that are not valid in its encoding."""


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
