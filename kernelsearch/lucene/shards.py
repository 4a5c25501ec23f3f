"""The folders of a collection: its Lucene indexes (shards), which are searched as one, their state, and whether they are whole.

The guarantees of one index hold for shards too.

- A collection is named by one Lucene index, by a folder that holds shards, or by several of either, in order. A folder that
  `kernelsearch.index --shards` wrote lists its shards in `shards.json`; in any other folder all subfolders are shards, by name.
- Rows are numbered in the order of the shards: row r of a shard is the collection's row `starts[shard] + r`.
- Statistics (documents, tokens, df, cf) are those of all shards together, so scores are equal to the unsharded index's, bit for
  bit, and ranked lists have its tie order: score descending, then docid ascending by its UTF-8 bytes.
- The collection's fingerprint is computed from its shards' fingerprints in their order, and artefacts (forward index, bases,
  models) belong to the collection. They are stored in FOLDER/kernelsearch; where several indexes were named, in
  FIRST/kernelsearch/shards/FINGERPRINT; with KERNELSEARCH_ARTEFACTS in that folder, by fingerprint, as for any index.
- Shards have the same analyser, the same fields indexed in the same way, and were created by the same major release of Lucene;
  no docid occurs in two of them. Anything else is refused: docids when the forward index is written, the rest on opening.

Lucene stores a checksum in every file and compares it only where it reads the whole file, which a search doesn't. The files of
an index that `kernelsearch.index` built are therefore noted when they are written; where they were changed since (a copy,
damage), Lucene verifies their checksums once, on opening. Indexes of other programs are verified by `kernelsearch.check` only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from kernelsearch.core import checksums
from kernelsearch.core.checksums import is_signed_correctly, signed
from kernelsearch.core.errors import Flag, IndexProblem, InputError, OptionError, quote
from kernelsearch.core.reading import parse_json
from kernelsearch.core.replacing import remove_leftovers
from kernelsearch.core.streams import raise_shortage
from kernelsearch.lucene import jvm

#: The folder inside the index for everything that kernelsearch adds: Lucene ignores it, and it is copied with the index.
ADDED_FOLDER = "kernelsearch"
#: The folder in ADDED_FOLDER for artefacts of collections that this index and others make.
COLLECTIONS = "shards"
#: The file in a folder of shards that lists their names, in order.
RECORD = "shards.json"
#: The file in ADDED_FOLDER that records how an index was built.
INDEX_RECORD = "index.json"
#: The language of the analyser where the index doesn't record one: Anserini's default.
ENGLISH = "en"
#: What to do about a damaged Lucene index.
ADVICE = "index the collection again"

#: What names a collection: a folder, or several.
Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Shards:
    """The Lucene indexes of a collection, in order; an index that isn't sharded is a collection of one."""

    folders: tuple[Path, ...]  #: the folders that were named; `find_shards(folders)` is the same collection
    paths: tuple[Path, ...]  #: the Lucene indexes
    chosen_artefacts: Path | None = None  #: the folder for artefacts, where it was set explicitly

    @cached_property
    def home(self) -> Path:
        """The (first) folder that was named."""
        return self.folders[0]

    @cached_property
    def name(self) -> str:
        """The collection's name in messages."""
        return " + ".join(map(str, self.folders))

    @property
    def sharded(self) -> bool:
        """Whether this is anything but one plain index."""
        return self.paths != self.folders or len(self.paths) > 1

    @property
    def flags(self) -> str:
        """The command line's flags that name the collection."""
        return " ".join(f"--index {path}" for path in self.folders)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the state of the collection; computed without Java."""
        if not self.sharded:
            return index_fingerprint(self.home)
        return collection_fingerprint([index_fingerprint(path) for path in self.paths])

    @cached_property
    def language(self) -> str:
        """The language code of the analyser that the shards were built with; IndexProblem if they differ."""
        languages = [record.language if (record := index_record(path)) else ENGLISH for path in self.paths]
        for (path, language), (next_path, next_language) in pairwise(zip(self.paths, languages, strict=True)):
            if language != next_language:
                raise IndexProblem(
                    f"{path} and {next_path}: can't be one collection (analysers: {language} and {next_language})"
                )
        return languages[0]

    @property
    def artefacts(self) -> Path:
        """The folder for artefacts: as set explicitly, or below KERNELSEARCH_ARTEFACTS, or inside the (first) folder."""
        if self.chosen_artefacts is not None:
            return self.chosen_artefacts
        if variable := os.environ.get("KERNELSEARCH_ARTEFACTS"):
            return Path(variable) / self.fingerprint
        added = self.home / ADDED_FOLDER
        return added / COLLECTIONS / self.fingerprint if len(self.folders) > 1 else added


def present_state(folders: Sequence[Path]) -> str | None:
    """The fingerprint of the collection that folders name at this moment; None where it is missing, as while it is moved."""
    try:
        return find_shards(folders).fingerprint
    except (IndexProblem, OSError) as problem:
        raise_shortage(problem)
        return None


def find_shards(source: Source, artefacts: str | Path | None = None) -> Shards:
    """Returns the shards of the collection `source`, which is named by one folder or several.

    `artefacts` is the folder for artefacts, by default inside the collection. Raises IndexProblem for a folder that is missing
    or is not a Lucene index, OptionError for an index that is named twice.
    """
    named = [source] if isinstance(source, str | Path) else source
    if not isinstance(named, Iterable) or not all(isinstance(folder, str | Path) for folder in named):
        raise InputError(f"a folder, or several, was expected, not {quote(source)}", option=Flag("index"))
    folders = tuple(map(Path, named))
    if not folders:
        raise OptionError("no index is named", option=Flag("index"))
    paths = tuple(shard for folder in folders for shard in _shards_of(folder))
    seen: dict[Path, Path] = {}
    for path in paths:
        if (real := path.resolve()) in seen:
            raise OptionError(f"{path} is named twice ({seen[real]} is the same index)", option=Flag("index"))
        seen[real] = path
    if not isinstance(artefacts, str | Path | None):
        raise InputError(f"a path was expected, not {quote(artefacts)}", option=Flag("artefacts"))
    return Shards(folders, paths, Path(artefacts) if artefacts is not None else None)


def write_record(folder: Path, names: Sequence[str]) -> None:
    """Writes `names`, the list of a folder's shards."""
    (folder / RECORD).write_text(json.dumps(signed({"shards": list(names)}), indent=1) + "\n", encoding="utf-8")


def is_index(path: Path) -> bool:
    """Returns whether the folder `path` is a Lucene index, or a folder of shards that `kernelsearch.index` wrote."""
    return (path / RECORD).is_file() or any(path.glob("segments_*"))


def _shards_of(path: Path) -> list[Path]:
    """The Lucene indexes that a folder names: itself, or those in it."""
    if not path.exists():
        remove_leftovers(path)  # brings it back where a process was killed while it replaced the folder
    if not path.is_dir() or any(path.glob("segments_*")):
        segments_file(path)
        return [path]
    if (path / RECORD).exists():
        shards = [path / name for name in _recorded(path / RECORD)]
        for shard in shards:
            if not shard.exists():
                raise IndexProblem(f"shard {shard.name} is missing ({RECORD} lists {len(shards)} shards)", path=path)
    else:
        # Sorted, because the order of the shards is the order of the rows.
        visible = (sub for sub in path.iterdir() if sub.is_dir() and not sub.name.startswith("."))
        shards = sorted(sub for sub in visible if sub.name != ADDED_FOLDER)
        if not any(any(shard.glob("segments_*")) for shard in shards):
            segments_file(path)
    for shard in shards:
        segments_file(shard)
    return shards


def _recorded(record: Path) -> list[str]:
    try:
        content = parse_json(record.read_bytes(), str(record))
        names = content["shards"]
        if (
            not is_signed_correctly(content)
            or not names
            or not all(isinstance(name, str) and Path(name).name == name for name in names)
        ):
            raise ValueError
        return list(names)
    except (OSError, InputError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise_shortage(problem)
        raise IndexProblem("damaged, not a list of shards", path=record) from None


def segments_file(path: str | Path) -> Path:
    """Returns the newest `segments_N` file of the Lucene index `path`; IndexProblem for a folder that has none."""
    path = Path(path)
    if not path.exists():
        raise IndexProblem("no such index", path=path)
    if not path.is_dir():
        raise IndexProblem("not a Lucene index (a folder was expected)", path=path)
    files = [file for file in path.iterdir() if re.fullmatch(r"segments_[0-9a-z]+", file.name)]
    if not files:
        raise IndexProblem("not a Lucene index (it has no segments file)", path=path)
    return max(files, key=lambda file: int(file.name[len("segments_") :], 36))


def index_fingerprint(path: str | Path) -> str:
    """Returns a hash that identifies the state of the Lucene index `path`, computed without Java.

    It is made of the segments file, which Lucene writes anew, with random ids, at every commit.
    """
    file = segments_file(path)
    return hashlib.sha256(file.name.encode() + file.read_bytes()).hexdigest()[:32]


def collection_fingerprint(shards: Sequence[str]) -> str:
    """Returns the fingerprint of a collection, from those of its shards in their order."""
    return hashlib.sha256(" ".join(["shards", *shards]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class IndexRecord:
    """What `kernelsearch.index` records beside an index that it builds."""

    language: str
    fields: tuple[str, ...]


def write_index_record(path: Path, language: str, fields: Sequence[str]) -> None:
    """Writes the record of the index `path` with this analyser's language and these additional fields."""
    (path / ADDED_FOLDER).mkdir(exist_ok=True)
    record = signed({"language": language, "fields": list(fields)})
    (path / ADDED_FOLDER / INDEX_RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def index_record(path: Path) -> IndexRecord | None:
    """Returns the record beside the index `path`; None where another program built it, IndexProblem for a damaged record."""
    file = path / ADDED_FOLDER / INDEX_RECORD
    try:
        record = parse_json(file.read_bytes(), str(file))
        if not is_signed_correctly(record):
            raise ValueError
        return IndexRecord(str(record["language"]), tuple(map(str, record.get("fields", ()))))
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise_shortage(problem)
        raise IndexProblem(f"cannot be read ({problem.strerror or problem})", path=file) from None
    except (InputError, ValueError, KeyError, TypeError, AttributeError):
        raise IndexProblem("damaged, not the record of an index; index the collection again", path=file) from None


def note_written(path: Path) -> None:
    """Records the present state of the files of the index `path` that has just been written or verified."""
    checksums.note_verified(path, _lucene_files(path), {}, into=path / ADDED_FOLDER)


def verify_changed(path: Path) -> None:
    """Verifies files of the index `path` that were changed since they were noted; raises IndexProblem where one is damaged."""
    places = path / ADDED_FOLDER
    if (places / checksums.NOTE).exists() and not checksums.is_unchanged(path, _lucene_files(path), {}, into=places):
        verify_checksums(path)
        note_written(path)


@jvm.calls_java
def verify_checksums(path: Path) -> None:
    """Lets Lucene compare the checksums of all files of the index `path`; raises IndexProblem where one differs."""
    import jnius

    try:
        jvm.bridge().verify(jvm.path_of(path))
    except jnius.JavaException as problem:
        raise IndexProblem(f"a damaged Lucene index ({damage(str(problem))}); {ADVICE}", path=path) from None


def open_reader(path: Path) -> Any:
    """Returns an IndexReader (Java) of the index `path`, whose changed files are verified; IndexProblem says why it can't.

    The caller is decorated with `jvm.calls_java`.
    """
    import jnius

    try:
        reader = jvm.bridge().open(jvm.path_of(path))
        verify_changed(path)
        return reader
    except jnius.JavaException as problem:
        raise IndexProblem(f"{_why_unreadable(problem)}", path=path) from None


def _why_unreadable(problem: BaseException) -> str:
    name = jvm.java_class_of(problem)
    if name.endswith("IndexNotFoundException"):
        return "not a Lucene index"
    if name.endswith("IndexFormatTooNewException"):
        return "written by a newer Lucene than this one reads; use the pyserini it was built with"
    if name.endswith("IndexFormatTooOldException"):
        return "written by an older Lucene than this one reads; index the collection again"
    if name.endswith("CorruptIndexException") or name.endswith("EOFException") or name.endswith("NoSuchFileException"):
        return f"a damaged Lucene index ({damage(str(problem))}); {ADVICE}"
    detail = " ".join(str(problem).split())[:200]
    # Lucene 9 has no exception class of its own for indexes of Lucene 10.
    if "is in the future" in detail or ("codec" in detail.lower() and "does not exist" in detail.lower()):
        return "written by a newer Lucene than this one reads; use the pyserini it was built with"
    return f"cannot be opened ({detail})"


@jvm.calls_java
def find_problem(path: Path) -> str:
    """Runs Lucene's CheckIndex on the index `path` and returns the first problem that it finds, in one line, or ""."""
    import jnius

    try:
        report: str = jvm.bridge().check(jvm.path_of(path))
    except jnius.JavaException as problem:
        return damage(str(problem))
    problems = [line.strip() for line in report.splitlines() if re.search(r"Exception|Error\b|FAILED", line)]
    return damage((problems or report.splitlines()[:1] or [""])[-1]) if report else ""


def damage(text: str) -> str:
    """The reason in `text`, a Java exception's message, in one line: the file, where it names one, and what is wrong."""
    line = re.sub(r"^JVM exception occurred: ", "", " ".join(text.split()))
    file = re.search(r'path="([^"]+)"', line)
    line = re.sub(r"\s*\(resource=.*", "", line)[:160]
    return f"{Path(file.group(1)).name}: {line}" if file else line


def _lucene_files(path: Path) -> list[str]:
    """The names of Lucene's files in an index."""
    return sorted(file.name for file in path.iterdir() if re.fullmatch(r"_.*|segments_.*", file.name))
