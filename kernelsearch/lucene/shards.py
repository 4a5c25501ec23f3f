"""A collection in shards: several Lucene indexes that count as one. What one index promises, shards promise too.

- A collection is named by one Lucene index, by a folder that holds shards, or by several of either, in order. A folder that
  `kernelsearch.index --shards` wrote lists its shards in `shards.json`; in any other folder all subfolders are shards, by name.
- Documents' rows follow each other in the order of the shards: a shard's row r is the collection's row `starts[shard] + r`.
- Statistics (documents, tokens, df, cf) are those of all shards together, so scores are the unsharded index's, bit for bit, and
  ranked lists come in its tie order: score descending, then docid ascending by its UTF-8 bytes.
- The collection's fingerprint is made of its shards' fingerprints in their order, and artefacts (forward index, bases, models)
  belong to the collection. They stand in FOLDER/kernelsearch; where several indexes were named, in
  FIRST/kernelsearch/shards/FINGERPRINT; with KERNELSEARCH_ARTEFACTS in that folder, by fingerprint, as for any index.
- Shards share their analyser, their fields, what these store, and the major release of the Lucene that created them; no docid
  stands in two of them. Whatever breaks this is refused: docids when the forward index is made, the rest on opening.

A process that holds only some shards scores like the whole collection through `kernelsearch.api.exchange`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kernelsearch.core.errors import IndexProblem, OptionError

#: Everything of ours stands in this folder inside the index: Lucene ignores it, and a copied or removed index takes it along.
OURS = "kernelsearch"
#: In a folder of shards: their names, in order.
RECORD = "shards.json"

#: How a collection is named: a folder, or several.
Source = str | Path | Sequence[str | Path]


@dataclass(frozen=True)
class Shards:
    """The Lucene indexes of a collection, in order; an index that isn't sharded is a collection of one."""

    given: tuple[Path, ...]  #: the folders that were named; `find_shards` finds the same collection by them
    paths: tuple[Path, ...]  #: the Lucene indexes
    elsewhere: Path | None = None  #: the folder of what is derived from the collection, where it isn't beside it

    @property
    def sharded(self) -> bool:
        """Whether this is anything else than one plain index."""
        return self.paths != self.given or len(self.paths) > 1

    @property
    def home(self) -> Path:
        """The (first) folder that was named."""
        return self.given[0]

    @property
    def name(self) -> str:
        """What messages call the collection."""
        return " + ".join(map(str, self.given))

    @property
    def flags(self) -> str:
        """How the command line names the collection."""
        return " ".join(f"--index {path}" for path in self.given)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies the state of the collection, without Java."""
        if not self.sharded:
            return index_fingerprint(self.home)
        return collection_fingerprint([index_fingerprint(path) for path in self.paths])

    @property
    def artefacts(self) -> Path:
        """The folder for everything that is derived from the collection; KERNELSEARCH_ARTEFACTS moves it elsewhere."""
        if self.elsewhere is not None:
            return self.elsewhere
        if variable := os.environ.get("KERNELSEARCH_ARTEFACTS"):
            return Path(variable) / self.fingerprint
        ours = self.home / OURS
        return ours / "shards" / self.fingerprint if len(self.given) > 1 else ours


def find_shards(source: Source, artefacts: str | Path | None = None) -> Shards:
    """The shards behind a name, or behind several; what isn't an index, or is missing, is refused by its name.

    `artefacts` is the folder of what is derived from the collection; by default it is beside it.
    """
    given = tuple(Path(one) for one in ([source] if isinstance(source, str | Path) else source))
    if not given:
        raise OptionError("--index: no index is named")
    paths = tuple(shard for one in given for shard in _shards_of(one))
    seen: dict[Path, Path] = {}
    for path in paths:
        if (real := path.resolve()) in seen:
            raise OptionError(f"--index: {path} counts twice ({seen[real]} is the same index)")
        seen[real] = path
    return Shards(given, paths, Path(artefacts) if artefacts is not None else None)


def write_record(folder: Path, names: Sequence[str]) -> None:
    """Lists the shards of a folder."""
    (folder / RECORD).write_text(json.dumps({"shards": list(names)}, indent=1) + "\n", encoding="utf-8")


def is_index(path: Path) -> bool:
    """Whether a folder is a Lucene index, or a folder of shards that we wrote."""
    return (path / RECORD).is_file() or any(path.glob("segments_*"))


def _shards_of(path: Path) -> list[Path]:
    """The indexes that a folder stands for: itself, or those in it."""
    if not path.is_dir() or any(path.glob("segments_*")):
        segments_file(path)
        return [path]
    if (path / RECORD).exists():
        found = [path / name for name in _recorded(path / RECORD)]
        for shard in found:
            if not shard.exists():
                raise IndexProblem(f"{path}: shard {shard.name} is missing ({RECORD} lists {len(found)} shards)")
    else:
        # Sorted, because the order of the shards is the order of the rows.
        found = sorted(one for one in path.iterdir() if one.is_dir() and one.name != OURS and not one.name.startswith("."))
        if not any(any(one.glob("segments_*")) for one in found):
            segments_file(path)
    for shard in found:
        segments_file(shard)
    return found


def _recorded(record: Path) -> list[str]:
    try:
        names = json.loads(record.read_text(encoding="utf-8"))["shards"]
        if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
            raise ValueError
        return list(names)
    except (OSError, ValueError, KeyError, TypeError):
        raise IndexProblem(f"{record}: damaged, not a list of shards") from None


def segments_file(path: str | Path) -> Path:
    """The newest `segments_N` of a Lucene index; refuses a folder that is none."""
    path = Path(path)
    if not path.exists():
        raise IndexProblem(f"{path}: no such index")
    if not path.is_dir():
        raise IndexProblem(f"{path}: not a Lucene index (a folder was expected)")
    found = [file for file in path.iterdir() if re.fullmatch(r"segments_[0-9a-z]+", file.name)]
    if not found:
        raise IndexProblem(f"{path}: not a Lucene index (it has no segments file)")
    return max(found, key=lambda file: int(file.name[len("segments_") :], 36))


def index_fingerprint(path: str | Path) -> str:
    """Identifies the state of an index without Java: Lucene writes a new segments file, with random ids, at every commit."""
    file = segments_file(path)
    return hashlib.sha256(file.name.encode() + file.read_bytes()).hexdigest()[:32]


def collection_fingerprint(shards: Sequence[str]) -> str:
    """The fingerprint of a collection from those of its shards, in their order."""
    return hashlib.sha256(" ".join(["shards", *shards]).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class IndexRecord:
    """What `kernelsearch.index` noted of an index that it built."""

    language: str
    fields: tuple[str, ...]


def index_record(path: Path) -> IndexRecord | None:
    """The note beside an index; None where somebody else built it."""
    try:
        record = json.loads((path / OURS / "index.json").read_text(encoding="utf-8"))
        return IndexRecord(str(record["language"]), tuple(map(str, record.get("fields", ()))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
