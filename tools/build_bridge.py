"""Compiles kernelsearch/lucene/java/Bridge.java into the class files that ship beside it.

Needs a JDK (any from 11 on) and Lucene 9, that is pyserini 1.x: Lucene 10's classes need a newer Java than the helper targets.

.venv/bin/python tools/build_bridge.py [OUTPUT_FOLDER]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelsearch.lucene.jvm import find_jar

SOURCE = Path(__file__).resolve().parent.parent / "kernelsearch" / "lucene" / "java" / "Bridge.java"
#: Lucene 9 runs on this Java, and older JDKs can then rebuild the helper.
JAVA_TARGET = 11


def build(output: Path, javac: str = "javac") -> list[Path]:
    """Compiles into `output` and returns what stands there: the class files, and a note of the compiler that made them.

    The same source gives the same bytes with the same major version of javac.
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
        note = output / "javac.txt"
        note.write_text((version.stdout or version.stderr).strip() + "\n", encoding="utf-8")
        return [*(Path(shutil.copy(file, output / file.name)) for file in made), note]


if __name__ == "__main__":
    for file in build(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parent):
        print(f"{file} {file.stat().st_size} bytes")
