"""Requirements with hashes for pip: `python -m tools.hashed_requirements constraints/default.txt` prints them.

Constraints say which version of each package is installed; constraints/hashes.txt has the SHA-256 of the files of these
versions. `pip install --require-hashes -r` of both together installs nothing else. This module needs only the standard library,
because it runs before anything is installed; `tools.freeze` writes the files.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools import ROOT

HASHES = ROOT / "constraints" / "hashes.txt"
#: Packages that build others from their source; installed first.
BUILD_TOOLS = ("setuptools",)
#: Packages that are not needed, or can't be installed, everywhere.
MARKERS = {"uvloop": "sys_platform != 'win32'"}


def read_pins(path: Path) -> list[str]:
    """The pins `name==version` of the constraints file `path`."""
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if "==" in line]


def read_hashes(path: Path = HASHES) -> dict[str, list[str]]:
    """{pin: SHA-256 of the files of this version} in the file `path`, whose lines are a pin and its hashes."""
    rows = (line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    return {pin: hashes for pin, *hashes in rows}


def requirements(pins: list[str], hashes: dict[str, list[str]]) -> list[str]:
    """The lines of a requirements file for `pins`, with their `hashes`; raises SystemExit for a pin without hashes."""
    missing = [pin for pin in pins if not hashes.get(pin)]
    if missing:
        raise SystemExit(f"{HASHES.name}: no hashes of {', '.join(missing)}; run make freeze")
    lines = []
    for pin in pins:
        marker = MARKERS.get(pin.partition("==")[0])
        lines.append(" ".join([f"{pin}; {marker}" if marker else pin, *(f"--hash=sha256:{digest}" for digest in hashes[pin])]))
    return lines


def main() -> None:
    """Prints the requirements of a constraints file, or those of the build tools."""
    parser = argparse.ArgumentParser(description="Prints the requirements of a constraints file with hashes.")
    parser.add_argument("constraints", type=Path, help="file of pins")
    parser.add_argument("--build-tools", action="store_true", help="only what builds other packages from their source")
    arguments = parser.parse_args()
    pins, hashes = read_pins(arguments.constraints), read_hashes()
    if arguments.build_tools:
        pins = [pin for pin in hashes if pin.partition("==")[0] in BUILD_TOOLS]
    print("\n".join(requirements(pins, hashes)))


if __name__ == "__main__":
    main()
