"""Real prose from the machine itself: the descriptions of the packages it could install, and its manual pages.

Works where `apt-cache` knows a distribution's packages (Debian, Ubuntu; after `apt-get update`) or manual pages are installed.
"""

from __future__ import annotations

import gzip
import itertools
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

MANUALS = Path("/usr/share/man")
#: Fields of a package record that are written for people.
SPOKEN = ("Package", "Description", "Section", "Tag", "Homepage", "Maintainer")


def records(documents: int | None = None) -> list[dict[str, str]]:
    """Documents as index records, at most `documents` of them; both kinds mixed, in the same order every time."""
    everything = itertools.chain(manual_pages(), package_descriptions())
    return sorted(everything, key=lambda record: zlib.crc32(record["id"].encode()))[:documents]


def package_descriptions() -> Iterator[dict[str, str]]:
    """One document per package that the machine's package lists name; none where there is no apt."""
    if not shutil.which("apt-cache"):
        return
    output = subprocess.run(["apt-cache", "dumpavail"], capture_output=True).stdout.decode("utf-8", errors="replace")
    seen = set()
    for stanza in output.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): *((?:.*)(?:\n .*)*)", stanza, flags=re.MULTILINE))
        name = fields.get("Package", "")
        if name and name not in seen and fields.get("Description"):
            seen.add(name)
            text = " ".join(" ".join(fields[field].split()) for field in SPOKEN if field in fields)
            yield {"id": f"package/{name}", "title": fields["Description"].splitlines()[0], "contents": text}


def manual_pages() -> Iterator[dict[str, str]]:
    """One document per manual page, without its markup."""
    for file in sorted(MANUALS.glob("man[1-9]/*.gz")):
        if file.is_symlink():
            continue
        try:
            with gzip.open(file, "rt", encoding="utf-8", errors="replace") as stream:
                text = stream.read()
        except OSError:
            continue  # a broken file of the machine is no document
        name = file.name.removesuffix(".gz")
        plain = without_markup(text)
        if plain and not text.startswith(".so "):
            yield {"id": f"manual/{name}", "title": name, "contents": plain}


def without_markup(text: str) -> str:
    """The words of the `text` of a manual page: requests such as .TP, comments, fonts and escapes removed."""
    text = re.sub(r'\\".*', "", text)
    text = re.sub(r"^[.'] *[A-Za-z]{1,3}\b", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\f(?:\[\w*\]|\(\w\w|\w)|\\s[-+]?\d|\\[&,/^|]|\\\(\w\w|\\\[[^\]]*\]", "", text)
    return " ".join(text.replace("\\-", "-").replace("\\", "").split())
