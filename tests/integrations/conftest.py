"""The bundled collection with its topics, and every method ready for use on it."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch.rerankers import registry
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.vectors.__main__ import main as vectors_verb
from tests.conftest import DEMO


@pytest.fixture(scope="session")
def demo_index(demo_index, tmp_path_factory):
    """A copy of this room's own: what is trained on it must not be met by tests of other rooms in the same process."""
    folder = tmp_path_factory.mktemp("integrations")
    shutil.copytree(demo_index.path, folder / "index")
    _add_vectors(folder, demo_index.forward.docids.take(demo_index.forward.live_docs))
    return kernelsearch.open(folder / "index", vectors={"queries": str(folder / "queries.npz")})


def _add_vectors(folder: Path, docids: list[str]) -> None:
    """Random vectors of all documents and of the topics' texts, for the method that ranks by vectors."""
    random = np.random.default_rng(0)
    np.savez(folder / "vectors.npz", ids=np.array(docids), vectors=random.standard_normal((len(docids), 8)))
    texts = list(read_topics(DEMO / "topics.tsv").values())
    np.savez(folder / "queries.npz", ids=np.array(texts), vectors=random.standard_normal((len(texts), 8)))
    vectors_verb(["--index", str(folder / "index"), "--name", "random", "--input", str(folder / "vectors.npz")])


@pytest.fixture(scope="session")
def topics() -> dict[str, str]:
    return read_topics(DEMO / "topics.tsv")


@pytest.fixture(scope="session")
def qrels() -> dict[str, dict[str, int]]:
    return read_qrels(DEMO / "qrels.txt")


@pytest.fixture(scope="session")
def ready(demo_index, topics, qrels):
    """`ready("klsa")` makes sure that the method can be used on the demo's index, and gives the index."""
    made: set[str] = set()

    def prepare(name: str):
        if name not in made:
            made.add(name)
            learns_from = registry.method(name).learns_from
            if registry.method(name).fit_settings is not None or learns_from:
                options = {"learner": "combsum"} if name == "fusion" else {}  # the quickest one
                data = {"topics": topics, "qrels": qrels, "clicks": DEMO / "clicks.jsonl"}
                wanted = ("topics", "qrels") if learns_from is None else learns_from
                demo_index.train(name, **{key: data[key] for key in wanted}, **options)
        return demo_index

    return prepare
