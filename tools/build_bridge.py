"""Compiles kernelsearch/lucene/java/Bridge.java into the class files that ship beside it.

Needs a JDK (any from 11 on) and Lucene 9, that is pyserini 1.x: Lucene 10's classes need a newer Java than the helper targets.

    python -m tools.build_bridge [OUTPUT_FOLDER]
"""

import argparse
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from kernelsearch.lucene.jvm import find_jar
from tools import ROOT

SOURCE = ROOT / "kernelsearch" / "lucene" / "java" / "Bridge.java"
#: Beside the class files: the compiler that made them, and checksums of the source and of the class files.
NOTE = "javac.txt"
#: Lucene 9 runs on this Java, and older JDKs can then rebuild the helper.
JAVA_TARGET = 11


def build(output: Path, javac: str = "javac") -> list[Path]:
    """Compiles with `javac` into the folder `output` and returns the files there: the class files, and a note.

    The note names the compiler and has checksums. The same source gives the same bytes with the same major version of javac.
    """
    version = subprocess.run([javac, "-version"], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", str(JAVA_TARGET), "-g:none", "-nowarn", "-proc:none", "-cp", str(find_jar()), "-d", folder]
        command = [javac, *options, str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        made = sorted(Path(folder).rglob("*.class"))
        output.mkdir(parents=True, exist_ok=True)
        copied = [Path(shutil.copy(file, output / file.name)) for file in made]
        note = output / NOTE
        note.write_text((version.stdout or version.stderr).strip() + "\n" + checksums([SOURCE, *copied]), encoding="utf-8")
        return [*copied, note]


def checksums(files: list[Path]) -> str:
    """SHA-256 of `files`, in the format of sha256sum."""
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files)


def main() -> None:
    """Compiles and prints the files and their sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", nargs="?", type=Path, default=SOURCE.parent, help="folder for the class files")
    for file in build(parser.parse_args().output):
        print(f"{file} {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
