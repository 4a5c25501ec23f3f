"""Structure-aware, seeded changes of a valid file: tokens, lines, numbers, nesting, bytes, compression."""

from __future__ import annotations

import gzip
import random
import re

#: Numbers that break arithmetic, parsers and allocations.
NUMBERS = (
    "0 -1 1e999 -1e999 nan inf NaN Infinity 1e-400 2147483648 9223372036854775808 0x10 1_000 ٣ 1.5.2 +-1 "
    f"{'9' * 400} {'9' * 5000}"
).split(" ")
#: Pieces of text that break decoding, terminals, C strings and columns.
TEXTS = [
    *["\x00", "\x1b[31m", "\ud7ff", "\u2028", "\x85", "\ufeff", "\u202e", "ßßß"],
    *[
        '"',
        "\\",
        "'",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        ":",
        "#",
        ",",
        "=",
        "\\ud800",
        "\\u0000",
        "qid:",
        "<DOC>",
        "</DOC>",
        "<top>",
    ],
    *["null", "true", "../../etc/passwd", "%s%n"],
    "",
    " ",
    "\t",
    "x" * 70_000,
]
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\w+|[^\w\s]")


def mutate(valid: bytes, generator: random.Random) -> bytes:
    """One to three random changes of a valid file; one in ten results is gzipped, and half of these are damaged."""
    data = valid
    for _ in range(generator.choice((1, 1, 2, 3))):
        data = generator.choice(CHANGES)(data, generator)
    if generator.random() < 0.1:
        data = gzip.compress(data, 1, mtime=0)
        if generator.random() < 0.5:
            data = generator.choice((_flip, _truncate))(data, generator)
    return data


def _flip(data: bytes, generator: random.Random) -> bytes:
    if not data:
        return data
    place = generator.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << generator.randrange(8))]) + data[place + 1 :]


def _truncate(data: bytes, generator: random.Random) -> bytes:
    return data[: generator.randrange(len(data) + 1)]


def _insert_bytes(data: bytes, generator: random.Random) -> bytes:
    place = generator.randrange(len(data) + 1)
    return data[:place] + generator.randbytes(generator.randrange(1, 9)) + data[place:]


def _token(data: bytes, generator: random.Random) -> bytes:
    """A number or word is replaced by an odd one."""
    text = data.decode("utf-8", "replace")
    tokens = list(_TOKEN.finditer(text))
    if not tokens:
        return data
    match = generator.choice(tokens)
    replacement = generator.choice(NUMBERS if match[0][0].isdigit() or generator.random() < 0.4 else TEXTS)
    return (text[: match.start()] + replacement + text[match.end() :]).encode("utf-8", "replace")


def _lines(data: bytes, generator: random.Random) -> bytes:
    """A line is doubled, removed, moved or emptied, or its columns are shuffled."""
    lines = data.split(b"\n")
    place = generator.randrange(len(lines))
    change = generator.randrange(5)
    if change == 0:
        lines.insert(generator.randrange(len(lines) + 1), lines[place])
    elif change == 1:
        del lines[place]
    elif change == 2:
        generator.shuffle(lines)
    elif change == 3:
        lines[place] = b""
    else:
        columns = lines[place].split(b"\t" if b"\t" in lines[place] else b" ")
        generator.shuffle(columns)
        lines[place] = b" ".join(columns)
    return b"\n".join(lines)


def _nest(data: bytes, generator: random.Random) -> bytes:
    """A part is put into many brackets."""
    depth = generator.choice((3, 150, 5_000))
    opening, closing = generator.choice(((b"[", b"]"), (b'{"a":', b"}"), (b"<a>", b"</a>"), (b"(", b")")))
    start, end = sorted((generator.randrange(len(data) + 1), generator.randrange(len(data) + 1)))
    return data[:start] + opening * depth + data[start:end] + closing * depth + data[end:]


def _repeat(data: bytes, generator: random.Random) -> bytes:
    """A short part is repeated many times."""
    start = generator.randrange(len(data) + 1)
    part = data[start : start + generator.randrange(1, 20)]
    return data[:start] + part * generator.choice((2, 50, 2_000)) + data[start:]


CHANGES = (_flip, _truncate, _insert_bytes, _token, _token, _token, _token, _lines, _lines, _nest, _repeat)
