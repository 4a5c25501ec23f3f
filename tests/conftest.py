"""Fixtures that all packages share: small indexes of our own making, the bundled collection, the real collections."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
from pathlib import Path

import hypothesis
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.cli import console
from kernelsearch.core import checksums

os.environ["KERNELSEARCH_CLASS_ARCHIVE"] = "off"  # processes that tests start leave none behind
# No limit on the time of an example: a busy machine is not a failure.
hypothesis.settings.register_profile("untimed", parent=hypothesis.settings(), deadline=None)
hypothesis.settings.load_profile("untimed")

# As the command line does, so that tests of the verbs see the library's messages, with flags in them.
console.show_messages()

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "kernelsearch" / "demo" / "data"

#: Six short documents: repeated terms, a document of stop words only, one without shared vocabulary.
TINY = [
    {
        "id": "d1",
        "title": "Dripping tap",
        "contents": "A dripping tap wastes water. Turn the water off, then replace the washer of the tap.",
    },
    {"id": "d2", "title": "Leaking faucet", "contents": "Leaking faucets need a new washer or cartridge."},
    {"id": "d3", "title": "Blown fuse", "contents": "When a fuse blows, find the fault before you replace the fuse."},
    {"id": "d4", "title": "Nothing", "contents": "the of and to"},
    {
        "id": "d5",
        "title": "Tripped breaker",
        "contents": "A tripped breaker is reset at the panel; water near the panel is dangerous.",
    },
    {"id": "d6", "title": "Ünïcode – title", "contents": "Señor Müller repariert den Wasserhahn."},
]


def heeding_interrupts() -> None:
    """For a child's `preexec_fn`: a suite that runs in the background inherits a SIGINT that is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def write_jsonl(path: Path, records: list[dict]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), encoding="utf-8")
    return path


def build_texts(folder: Path, texts: dict[str, str], *flags: str) -> Path:
    """Builds an index of texts by docid below a folder with these flags, and returns its path."""
    from kernelsearch import index as index_verb

    source = write_jsonl(folder / "corpus.jsonl", [{"id": name, "contents": text} for name, text in texts.items()])
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), *flags])
    return folder / "index"


def run_verb(capture, main, *arguments) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a verb as the command line runs it, without a process; `capture` is capsys or capfd."""
    with pytest.raises(SystemExit) as ended:
        console.run(main, [str(argument) for argument in arguments])
    printed = capture.readouterr()
    return ended.value.code, printed.out, printed.err


#: Code for a child process: `dying(function)` calls the function, and kills the process at the call number `left[0]` of all.
DYING_CALLS = """
import os, signal, sys
left = [0]
def dying(function):
    def call(*arguments, **keywords):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **keywords)
    return call
"""


def drawn_texts(path: Path) -> set[str]:
    """The texts in an SVG picture, which matplotlib writes as a comment beside the outlines of their letters."""
    return set(re.findall(r"<!-- (.*?) -->", path.read_text(encoding="utf-8")))


def rewrite_meta(folder: Path, change) -> None:
    """Changes an artefact's description as someone does who also corrects its checksums."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    change(meta)
    meta["checksums"] = {name: checksums.file_checksum(folder / name) for name in meta["files"]}
    del meta["checksum"]
    (folder / "meta.json").write_text(json.dumps(checksums.signed(meta)), encoding="utf-8")


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory) -> Path:
    """The folder of an index over TINY."""
    folder = tmp_path_factory.mktemp("tiny")
    source = write_jsonl(folder / "corpus.jsonl", TINY)
    # Figures that tests work out by hand count the words of the contents alone.
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), "--no-join-titles"])
    return folder / "index"


@pytest.fixture(scope="session")
def tiny(tiny_path):
    """An opened index over TINY."""
    return kernelsearch.open(tiny_path)


@pytest.fixture(scope="session")
def demo_index(tmp_path_factory):
    """An opened index of the bundled collection; its topics, judgements and click log stand in DEMO."""
    folder = tmp_path_factory.mktemp("demo")
    index_verb.main(["--input", str(DEMO / "corpus.jsonl"), "--index", str(folder / "index")])
    return kernelsearch.open(folder / "index")


@pytest.fixture(scope="session")
def collections() -> Path:
    """The folder of real test collections; tests that need them are skipped where it is absent."""
    folder = Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or ROOT.parent / "shared" / "collections")
    if not folder.is_dir():
        pytest.skip(f"real collections not found at {folder} (KERNELSEARCH_COLLECTIONS names another place)")
    return folder


@pytest.fixture(scope="session")
def collection_index(collections, tmp_path_factory):
    """Builds (once) and opens the index of a real collection: `collection_index("cran")`."""
    opened: dict[str, kernelsearch.Index] = {}
    folder = tmp_path_factory.getbasetemp()
    # The folder of all processes, if there are several: the first one that needs an index builds it, and each has a copy.
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "collections-built"
    shared.mkdir(exist_ok=True)

    def build(name: str, corpus: str = "corpus.jsonl", language: str = "en"):
        key = f"{name}-{corpus}-{language}"
        if key not in opened:
            path = shared / key
            with open(shared / f"{key}.lock", "w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not path.exists():
                    source = collections / name / corpus
                    index_verb.main(["--input", str(source), "--index", str(path), "--language", language])
            opened[key] = kernelsearch.open(shutil.copytree(path, tmp_path_factory.mktemp("collections") / key))
        return opened[key]

    return build
