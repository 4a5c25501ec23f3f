"""The bridge's class files are those that its source compiles to, and run on the oldest supported Java."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernelsearch.lucene.jvm import JAVA_FILES, find_jar
from tests.conftest import ROOT
from tools.build_bridge import JAVA_TARGET, build

CLASSES = sorted(file.name for file in JAVA_FILES.glob("*.class"))


def class_version(code: bytes) -> int:
    """The Java release that a class file was compiled for: its major version minus 44 (JVM specification, 4.1)."""
    magic, _, major = struct.unpack(">IHH", code[:8])
    assert magic == 0xCAFEBABE
    return major - 44


def javac_major(text: str) -> int:
    result = re.search(r"javac (\d+)", text)
    assert result, text
    return int(result.group(1))


def skip(reason: str) -> None:
    """Skips a test; where KERNELSEARCH_JAVAC is "required", as in .ci/run, it fails instead."""
    (pytest.fail if os.environ.get("KERNELSEARCH_JAVAC") == "required" else pytest.skip)(reason)


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory) -> Path:
    javac = shutil.which("javac")
    if javac is None:
        skip("no javac on the PATH: the helper's class files can't be rebuilt here")
    with zipfile.ZipFile(find_jar()) as jar:
        lucene = class_version(jar.read("org/apache/lucene/index/IndexReader.class"))
    if lucene > JAVA_TARGET:
        pytest.skip(f"the helper is compiled against Lucene 9; this Lucene's own classes need Java {lucene}")
    folder = tmp_path_factory.mktemp("bridge")
    build(folder, javac)
    return folder


@pytest.mark.parametrize("name", CLASSES)
def test_shipped_class_files_run_on_the_oldest_java(name):
    assert class_version((JAVA_FILES / name).read_bytes()) == JAVA_TARGET == 11


def test_the_helper_and_its_inner_classes_are_shipped():
    assert "Bridge.class" in CLASSES
    assert javac_major((JAVA_FILES / "javac.txt").read_text(encoding="utf-8")) >= JAVA_TARGET


def test_the_class_files_were_made_from_this_source():
    """Needs no JDK: the source and the class files have the checksums that were recorded when they were compiled."""
    recorded = (JAVA_FILES / "javac.txt").read_text(encoding="utf-8").splitlines()[1:]
    expected = [f"{hashlib.sha256((JAVA_FILES / name).read_bytes()).hexdigest()}  {name}" for name in ("Bridge.java", *CLASSES)]
    assert sorted(recorded) == sorted(expected), "run make bridge"


def test_rebuilding_gives_the_shipped_bytes(rebuilt):
    assert sorted(file.name for file in rebuilt.glob("*.class")) == CLASSES
    if javac_major((rebuilt / "javac.txt").read_text()) != javac_major((JAVA_FILES / "javac.txt").read_text()):
        skip("another major version of javac than the one recorded in javac.txt: its bytes may differ")
    for name in CLASSES:
        assert (rebuilt / name).read_bytes() == (JAVA_FILES / name).read_bytes(), f"{name}: run make bridge"


def test_the_rebuilt_helper_works(rebuilt, tiny_path):
    """Loaded in a separate JVM, the rebuilt class exports the same postings and retrieves the same documents."""
    script = """
import sys
from pathlib import Path
from kernelsearch.lucene import jvm
if len(sys.argv) > 2:
    jvm.JAVA_FILES = Path(sys.argv[2])
    jvm.jvm_options = lambda heap: ["-Xrs"]
from kernelsearch.lucene.postings import LucenePostings
from kernelsearch.lucene.index import CONTENTS, LuceneIndex
index = LuceneIndex(sys.argv[1])
scan = LucenePostings(index.reader, CONTENTS).scan()
rows = LucenePostings(index.reader, CONTENTS).rows(0, index.rows(), scan, True)
print([part.tolist() for part in (*vars(scan).values(), *rows)])
print([(found.docs.tolist(), found.scores.tolist()) for found in index.search(index.queries(["tap water", "fuse panel"]))])
"""
    shipped, ours = (
        subprocess.run([sys.executable, "-c", script, str(tiny_path), *extra], cwd=ROOT, capture_output=True, text=True)
        for extra in ([], [str(rebuilt)])
    )
    assert shipped.returncode == 0, shipped.stderr
    assert ours.returncode == 0, ours.stderr
    assert len(ours.stdout.splitlines()) == 2
    assert ours.stdout == shipped.stdout


def test_every_public_method_is_called():
    """What Python does not call, the helper does not need."""
    package = ROOT / "kernelsearch"
    names = re.findall(r"^  public static .*?(\w+)\(", (package / "lucene/java/Bridge.java").read_text(), re.MULTILINE)
    code = "\n".join(file.read_text(encoding="utf-8") for file in package.rglob("*.py"))
    assert len(names) > 15
    assert not [name for name in names if not re.search(rf"(?i:bridge\w*(\(\))?\.){name}\b", code)]
