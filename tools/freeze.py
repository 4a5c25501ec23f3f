"""Pins what the environments have installed: `python -m tools.freeze` writes constraints/, with the hashes of the pinned files.

Hashes come from the package index that pip is configured with. They cover every file of a version that a Python from 3.11 on
can use, on any platform; files in other places, such as builds on this machine, are not listed, and pip then refuses them.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from tools import ROOT
from tools.hashed_requirements import BUILD_TOOLS, HASHES, read_hashes, read_pins

#: The constraints of each environment, and whether it is installed with hashes. torch, in that of the full pyserini, may be a
#: local build; the one of the benchmarks has other programs only.
ENVIRONMENTS = {
    "default": (".venv", True),
    "pyterrier": (".venv-pyterrier", True),
    "lucene10": (".venv-lucene10", True),
    "pyserini-full": (".venv-pyserini", False),
    "bench": (".venv-bench", False),
}
#: The oldest Python 3 whose files are listed.
OLDEST = 11


class _Links(HTMLParser):
    """The links of a page of the index."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects the address of a link: the attribute `href` among `attrs` of a `tag` that is `a`."""
        self.links += [value for name, value in attrs if tag == "a" and name == "href" and value]


def index_address() -> str:
    """The address of the package index that pip uses."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    configured = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if result := re.search(r"(?m)^[^=]*\.index-url='([^']+)'", configured):
        return result[1]
    help_text = subprocess.run([sys.executable, "-m", "pip", "download", "--help"], capture_output=True, text=True, check=True)
    result = re.search(r"--index-url <url>.*?\(default\s+(\S+?)\)", " ".join(help_text.stdout.split()))
    if result is None:
        raise SystemExit("pip does not say which package index it uses")
    return result[1]


def file_hashes(page: str, name: str, version: str) -> list[str]:
    """The SHA-256 of the files of a `version` of the package `name` on a `page` of the index.

    Wheels for a Python below 3.11 are left out.
    """
    parser = _Links()
    parser.feed(page)
    result = set()
    for link in parser.links:
        address, fragment = urldefrag(link)
        file = unquote(urlsplit(address).path.rsplit("/", 1)[-1])
        if fragment.startswith("sha256=") and _belongs(file, name, version):
            result.add(fragment.removeprefix("sha256="))
    return sorted(result)


def _belongs(file: str, name: str, version: str) -> bool:
    """Whether a file is an sdist, or a wheel that a Python from 3.11 on may use, of this version of a package."""
    try:
        if file.endswith(".whl"):
            project, release, _, tags = parse_wheel_filename(file)
            if not any(_usable(tag.interpreter, tag.abi) for tag in tags):
                return False
        else:
            project, release = parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False
    return project == canonicalize_name(name) and release == Version(version)


def _usable(interpreter: str, abi: str) -> bool:
    if interpreter.startswith("py3") or abi == "abi3":
        return True
    result = re.fullmatch(r"cp3(\d+)", interpreter)
    return result is not None and int(result[1]) >= OLDEST and not abi.endswith("t")


def installed(python: Path) -> list[str]:
    """The pins of the environment of the interpreter `python`, without a local version such as +cpu."""
    command = [str(python), "-m", "pip", "freeze", "--exclude-editable"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted((re.sub(r"\+cpu$", "", line) for line in lines), key=lambda line: (line.lower(), line))


def _latest(index: str, name: str) -> str:
    """The newest version of a package that is no pre-release."""
    parser = _Links()
    parser.feed(_page(index, name))
    versions = set()
    for link in parser.links:
        try:
            versions.add(parse_wheel_filename(unquote(urlsplit(urldefrag(link)[0]).path.rsplit("/", 1)[-1]))[1])
        except (InvalidWheelFilename, InvalidVersion):
            continue
    return str(max(version for version in versions if not version.is_prerelease))


def _page(index: str, name: str) -> str:
    with urllib.request.urlopen(f"{index.rstrip('/')}/{canonicalize_name(name)}/", timeout=120) as answer:
        return str(answer.read().decode("utf-8"))


def main() -> None:
    """Writes the constraints of the environments that exist, and the hashes of all pins that are installed with hashes."""
    parser = argparse.ArgumentParser(description="Pins the installed versions of all environments, with hashes.")
    parser.add_argument("--hashes-only", action="store_true", help="leave the pins as they are, and add hashes of new ones")
    arguments = parser.parse_args()
    folder = ROOT / "constraints"
    wanted: dict[str, None] = {}
    for name, (environment, hashed) in ENVIRONMENTS.items():
        python, path = ROOT / environment / "bin" / "python", folder / f"{name}.txt"
        if python.exists() and not arguments.hashes_only:
            path.write_text("".join(f"{pin}\n" for pin in installed(python)), encoding="utf-8")
        if hashed:
            wanted.update(dict.fromkeys(read_pins(path)))
    index = index_address()
    known = read_hashes() if HASHES.is_file() else {}
    built_with = {pin.partition("==")[0]: pin for pin in (*known, *wanted)}
    for name in BUILD_TOOLS:
        wanted.setdefault(built_with.get(name) or f"{name}=={_latest(index, name)}")

    def hashes_of(pin: str) -> list[str]:
        if pin in known:  # an index does not change its files, and a new platform's file is not needed
            return known[pin]
        name, _, version = pin.partition("==")
        if not (result := file_hashes(_page(index, name), name, version)):
            raise SystemExit(f"{pin}: the package index has no files with hashes of it")
        return result

    with ThreadPoolExecutor(8) as pool:
        rows = list(zip(wanted, pool.map(hashes_of, wanted), strict=True))
    lines = [f"{pin} {' '.join(hashes)}\n" for pin, hashes in sorted(rows, key=lambda row: row[0].lower())]
    head = "# SHA-256 of the files of every pinned version; written by `make freeze`, read by tools/hashed_requirements.py.\n"
    HASHES.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
