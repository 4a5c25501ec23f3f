"""Compiles kernelsearch/lucene/java/Bridge.java into the class files that ship beside it. Needs a JDK (any from 11 on).

.venv/bin/python tools/build_bridge.py [OUTPUT_FOLDER]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelsearch.lucene.versions import find_jar

SOURCE = Path(__file__).resolve().parent.parent / "kernelsearch" / "lucene" / "java" / "Bridge.java"


def build(output: Path, javac: str = "javac") -> list[Path]:
    """Compiles into `output` and returns the class files. The same source and target give the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            javac,
            "--release",
            "11",
            "-g:none",
            "-nowarn",
            "-proc:none",
            "-cp",
            str(find_jar()),
            "-d",
            folder,
            str(SOURCE),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        made = sorted(Path(folder).rglob("*.class"))
        output.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(file, output / file.name)) for file in made]


if __name__ == "__main__":
    for file in build(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE.parent):
        print(f"{file} {file.stat().st_size} bytes")
