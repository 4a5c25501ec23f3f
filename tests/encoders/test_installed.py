"""Encoders of other libraries, with stand-ins of the libraries: which class and options are chosen, and what is passed on."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.encoders import open_encoder


def test_libraries_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(OptionError, match="sentence-transformers:x: needs sentence_transformers"):
        open_encoder("sentence-transformers:x")
    monkeypatch.setitem(sys.modules, "pyserini.encode", None)
    with pytest.raises(OptionError, match="pyserini:x: needs pyserini"):
        open_encoder("pyserini:x")


def test_sentence_transformers_distinguishes_queries_from_documents(monkeypatch):
    class SentenceTransformer:
        def __init__(self, name, device):
            if name == "missing":
                raise OSError("no such model")
            self.name = name

        def encode_query(self, texts, **options):
            return np.array([[len(text), 1.0] for text in texts])

        def encode_document(self, texts, **options):
            return np.array([[len(text), 2.0] for text in texts])

        encode = None

    library = ModuleType("sentence_transformers")
    library.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    encoder = open_encoder("sentence-transformers:some/model")
    assert encoder.queries(["abc", "a"]).tolist() == [[3, 1], [1, 1]]
    assert encoder.documents(["abc"]).tolist() == [[3, 2]]
    assert encoder.declaration()["model"] == "some/model"
    with pytest.raises(InputError, match="can't be opened"):
        open_encoder("sentence-transformers:missing")


def test_pyserini_classes_are_chosen_by_the_name(monkeypatch):
    made = []

    def encoder_class(kind):
        class Made:
            def __init__(self, name, **options):
                made.append((kind, name, options))

            def encode(self, texts, **options):
                return np.ones(3) if isinstance(texts, str) else np.zeros((len(texts), 3))

        return Made

    library = ModuleType("pyserini.encode")
    library.document_encoder_class_map = {kind: encoder_class(f"document {kind}") for kind in ("tct_colbert", "auto")}
    library.query_encoder_class_map = {kind: encoder_class(f"query {kind}") for kind in ("tct_colbert", "auto")}
    monkeypatch.setitem(sys.modules, "pyserini.encode", library)
    encoder = open_encoder("pyserini:castorini/tct_colbert-v2")
    assert [kind for kind, _, _ in made] == ["document tct_colbert", "query tct_colbert"]
    assert encoder.queries(["a", "b"]).tolist() == [[1, 1, 1], [1, 1, 1]]
    assert encoder.documents(["a", "b"]).tolist() == [[0, 0, 0], [0, 0, 0]]
    open_encoder("pyserini:sentence-transformers/all-MiniLM-L6-v2")
    assert made[-1] == (
        "query auto",
        "sentence-transformers/all-MiniLM-L6-v2",
        {"device": "cpu", "pooling": "mean", "l2_norm": True},
    )
