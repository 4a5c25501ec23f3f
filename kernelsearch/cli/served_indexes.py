"""The indexes on the command line of serve: each `--index` with the flags after it that belong to it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import InputError
from kernelsearch.serve.settings import IndexSpec
from kernelsearch.vectors.settings import VectorSettings


@dataclass
class IndexFlags:
    """The values of an --index flag and of the flags after it that belong to it."""

    name: str
    path: str
    topics: str | None = None
    qrels: str | None = None
    clicks: str | None = None
    vectors: str | None = None
    query_vectors: str | None = None

    def load(self) -> IndexSpec:
        """Reads the files of topics and judgements."""
        topics = load_topics(self.topics) if self.topics else {}
        qrels = load_qrels(self.qrels) if self.qrels else {}
        if topics and qrels and not topics.keys() & qrels.keys():
            raise InputError(f"{self.qrels}: judges none of the topics of {self.topics}")
        vectors = VectorSettings(name=self.vectors, queries=self.query_vectors)
        return IndexSpec(self.name, self.path, topics, qrels, self.clicks, vectors)


class IndexAction(argparse.Action):
    """--index starts the flags of another index; --topics, --qrels, --clicks, --vectors and --query-vectors belong to it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Adds the value to `namespace.indexes`."""
        value = str(values)
        indexes: list[IndexFlags] = getattr(namespace, "indexes", None) or []
        namespace.indexes = indexes
        if self.dest == "index":
            name, equals, path = value.partition("=")
            name, path = (name, path) if equals else (Path(value).resolve().name, value)
            if not name or any(letter in name for letter in "/?#%"):
                parser.error(f"--index: {name!r} can't be a name; give one with --index NAME=FOLDER")
            if any(flags.name == name for flags in indexes):
                parser.error(f"--index: two are named {name}; give another name with --index NAME=FOLDER")
            indexes.append(IndexFlags(name, path))
        elif not indexes:
            parser.error(f"{option_string}: belongs after the --index that it is for")
        elif getattr(indexes[-1], self.dest) is not None:
            parser.error(f"{option_string}: given twice for --index {indexes[-1].name}")
        else:
            setattr(indexes[-1], self.dest, value)
