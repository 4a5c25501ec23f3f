"""Seeded fuzzing of every reader: a changed file is read, or refused in one short line that names it.

`make test` runs 200 files per reader, `make fuzz` 10,000 (KERNELSEARCH_FUZZ). A failure prints the seed and keeps the file.
"""

from __future__ import annotations

import ast
import os
import random
import time
import zlib

import pytest

from kernelsearch.core.errors import KernelSearchError
from tests.conftest import ROOT
from tests.fuzz.mutate import mutate
from tests.fuzz.readers import READERS

CASES = int(os.environ.get("KERNELSEARCH_FUZZ", "200"))
#: Most seconds of CPU time for one file: more than a thousand times what a valid one takes. A busy machine may take longer.
SLOW = 5.0
#: Most seconds by the clock: a reader that waits for something takes no CPU time.
STUCK = 60.0


@pytest.mark.parametrize("name", READERS)
def test_the_valid_file_is_read(name, tmp_path):
    suffix, valid, read = READERS[name]
    file = tmp_path / f"input{suffix}"
    file.write_bytes(valid)
    assert read(file)


@pytest.mark.parametrize("name", READERS)
def test_a_changed_file_is_read_or_refused_by_name(name, tmp_path):
    suffix, valid, read = READERS[name]
    seed = zlib.crc32(name.encode())
    for case in range(CASES):
        file = tmp_path / f"input{suffix}"
        file.write_bytes(mutate(valid, random.Random(seed + case)))
        start, begin = time.process_time(), time.monotonic()
        try:
            read(file)
        except KernelSearchError as problem:
            message = str(problem)
            assert len(message) < 1500 + 3 * len(str(file)), f"seed {seed + case}: a message of {len(message)} characters"
            message.encode()
            assert "\n" not in message, f"seed {seed + case}: several lines for {file}"
        except Exception as problem:
            raise AssertionError(f"seed {seed + case}: {type(problem).__name__}: {problem} for {file}") from problem
        assert time.process_time() - start < SLOW, f"seed {seed + case}: slow for {file}"
        assert time.monotonic() - begin < STUCK, f"seed {seed + case}: waits for {file}"


def test_changes_depend_on_the_seed_alone():
    _, valid, _ = READERS["run"]
    changed = [mutate(valid, random.Random(seed)) for seed in range(50)]
    assert changed == [mutate(valid, random.Random(seed)) for seed in range(50)]
    assert len(set(changed)) > 40


def test_every_module_that_reads_is_fuzzed():
    """A new module that imports the reading layer has to be added to READERS, or to the exceptions here with a reason."""
    exceptions = {
        "api/carrying.py": "artefacts",
        "api/index_artefacts.py": "artefacts",
        "api/following.py": "artefacts",
        "core/artefacts.py": "artefacts: tests/core/test_artefacts.py",
        "core/installed.py": "parse_json alone, of what pip has written",
        "papers/classify/text_classifier.py": "artefacts",
        "lucene/shards.py": "artefacts",
        "rerankers/fusion/training_queries.py": "artefacts",
        "vectors/encoding.py": "artefacts",
        "neighbours/faiss_files.py": "fuzzed as vectors-faiss",
        "encoders/onnx.py": "read_toml alone, which config fuzzes",
        "api/judged.py": "whole_number alone, of the grades of a data frame",
        "api/readable.py": "parse_json alone, of stored documents",
        "api/results.py": "parse_json alone, of stored documents",
        "serve/routes.py": "parse_json alone, of request bodies: tests/serve/test_openapi.py",
        "serve/filters.py": "to_number alone, of the values of fields",
        "similarity/fields.py": "json_object alone, of stored documents",
        "integrations/frames.py": "json_object alone, of stored documents",
        "integrations/pyterrier_text.py": "json_object alone, of stored documents",
        "papers/mslm/sources.py": "needs an index's terms; its line format is that of similar-pairs",
        "clicks/simulate.py": "tab-separated lines, as topics-tsv",
        "index.py": "one docid per line, read by `lines` alone",
    }
    imported = {
        node.module
        for file in (ROOT / "tests").glob("*/readers.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    for file in sorted((ROOT / "kernelsearch").rglob("*.py")):
        name = file.relative_to(ROOT / "kernelsearch").as_posix()
        if "core.reading import" not in file.read_text(encoding="utf-8") or name in exceptions:
            continue
        module = f"kernelsearch.{name.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
        package = module.rpartition(".")[0]
        assert module in imported or package in imported or package.startswith("kernelsearch.trec"), (
            f"{name} reads files, and tests/fuzz/readers.py doesn't fuzz it"
        )
    for name in exceptions:
        assert (ROOT / "kernelsearch" / name).is_file() or not (ROOT / "kernelsearch" / "papers").is_dir(), name
