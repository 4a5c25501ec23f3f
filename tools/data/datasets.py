"""The test collections that benchmarks and reproductions use: their files, their indexes, their judged topics."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import kernelsearch
from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.cli import console
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.trec.documents import read_documents
from tools import COLLECTIONS

Topics = dict[str, str]
Judgements = dict[str, dict[str, int]]


@dataclass(frozen=True)
class Dataset:
    """A collection's folder, and the files in it; `training` are topics and judgements that are not measured.

    `language` is that of the analyser. The methods' `collections` is the folder of all collections.
    """

    folder: str
    corpus: str = "corpus.jsonl"
    topics: str = "topics.tsv"
    qrels: str = "qrels.txt"
    training: tuple[str, str] | None = None
    language: str = "en"

    def read(self, collections: Path) -> tuple[Topics, Judgements]:
        """The measured topics and their judgements, from the files below `collections`."""
        return self._read(collections, self.topics, self.qrels)

    def read_training(self, collections: Path) -> tuple[Topics, Judgements] | None:
        """Topics and judgements to learn from, below `collections`; None where the dataset has none of their own."""
        return self._read(collections, *self.training) if self.training else None

    def _read(self, collections: Path, topics: str, qrels: str) -> tuple[Topics, Judgements]:
        folder = collections / self.folder
        return read_topics(folder / topics), read_qrels(folder / qrels)

    def open_index(self, collections: Path, path: Path) -> kernelsearch.Index:
        """The index at `path`, built from the documents below `collections` where it is missing."""
        return open_index(path, collections / self.folder / self.corpus, self.language)


#: "cran, all 1837" counts all judged pairs of cran as relevant; cacm has Anserini's documents and judgements.
DATASETS = {
    "cran": Dataset("cran"),
    "cran, all 1837": Dataset("cran", qrels="qrels.all1837.txt"),
    "cacm": Dataset("cacm", "corpus.anserini.jsonl", qrels="qrels.anserini.txt"),
    "cisi": Dataset("cisi"),
    "npl": Dataset("npl"),
    "nfcorpus": Dataset("nfcorpus", training=("train.topics.tsv", "train.qrels.txt")),
    "nfcorpus dev": Dataset("nfcorpus", topics="dev.topics.tsv", qrels="dev.qrels.txt"),
    "scifact": Dataset("scifact", training=("train.topics.tsv", "train.qrels.txt")),
    "scifact train": Dataset("scifact", topics="train.topics.tsv", qrels="train.qrels.txt"),
    "zerozero": Dataset("clicks_zerozero", language="pt"),
    **{f"xquadr_{language}": Dataset(f"xquadr_{language}", language=language) for language in ("en", "es", "ru", "ar")},
}


def open_index(path: Path, source: Path, language: str = "en") -> kernelsearch.Index:
    """The index at `path`, built from the documents at `source` where it is missing; `language` is that of the analyser."""
    if not path.exists():
        settings = BuildSettings(language=language)
        build_index(path, partial(read_documents, str(source)), settings, source=str(source), progress=console.progress)
    return kernelsearch.open(path)


def judged_topics(topics: Topics, qrels: Judgements) -> list[str]:
    """The ids of the `topics` that have a relevant document in `qrels`, in the topics' order."""
    return [qid for qid in topics if any(grade > 0 for grade in qrels.get(qid, {}).values())]


def add_collections_option(parser: argparse.ArgumentParser) -> None:
    """Adds --collections, the folder of the test collections, to `parser`."""
    parser.add_argument(
        "--collections",
        type=Path,
        default=COLLECTIONS,
        help="folder of the test collections (default: %(default)s; KERNELSEARCH_COLLECTIONS sets another)",
    )
