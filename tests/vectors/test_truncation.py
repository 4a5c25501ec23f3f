"""How much of the texts an encoder has read: from the import, from the encoder's declaration, and in the weights of `auto`."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kernelsearch
from kernelsearch.core.errors import OptionError
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.vectors import store
from kernelsearch.vectors.__main__ import main
from kernelsearch.vectors.truncation import read_shares, reliability
from tests.encoders.model import write_encoder
from tests.vectors.conftest import write_npz


def imported(index, table, tmp_path, *flags):
    """The table's vectors as the verb stores them under the name m."""
    main(["--index", str(index.path), "--name", "m", "--input", str(write_npz(tmp_path / "v.npz", *table)), *flags])
    return store.DocumentVectors(store.place(index.artefacts, "m"))


def test_the_share_is_that_of_word_pieces_within_the_limit(index, table, tmp_path):
    documents = imported(index, table, tmp_path, "--max-tokens", "19")
    lengths = np.array([5, 10, 20, 1000, 40, 0], dtype=np.int32)  # the fourth document has no vector
    assert documents.present.tolist() == [True, True, True, False, True, True]
    # 1.9 word pieces per term: 9.5, 19, 38, 76 and 0
    assert read_shares(documents, lengths).tolist() == pytest.approx([1, 1, 0.5, 0.25, 1])
    live = np.ones(6, dtype=bool)
    assert reliability(documents, lengths, live) == pytest.approx((3 + math.sqrt(0.5) + 0.5 + 0) / 6)
    live[3] = False  # a deleted document needs no vector
    assert reliability(documents, lengths, live) == pytest.approx((3 + math.sqrt(0.5) + 0.5) / 5)


def test_whole_texts_are_reliable(index, table, tmp_path):
    documents = imported(index, table, tmp_path, "--max-tokens", "0")
    assert reliability(documents, np.full(6, 10**6), documents.present) == 1.0


def test_the_limit_is_the_imports_or_the_encoders_or_minilms(index, table, tmp_path):
    assert imported(index, table, tmp_path).max_tokens == 256
    assert imported(index, table, tmp_path, "--max-tokens", "512").max_tokens == 512


@pytest.mark.parametrize(("settings", "limit"), [("max-length = 5\n", 5), ('max-length = 5\nlong-texts = "mean"\n', 0)])
def test_an_encoder_declares_its_limit(index, tmp_path, settings, limit):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    encoder = write_encoder(tmp_path / "encoder")
    with open(encoder / "encoder.toml", "a", encoding="utf-8") as stream:
        stream.write(settings)
    flags = ["--index", str(index.path), "--name", "m", "--encoder", str(encoder)]
    main(flags)
    assert store.DocumentVectors(store.place(index.artefacts, "m")).max_tokens == limit
    with pytest.raises(OptionError, match=r"max_tokens: .*encoder: its max-length says it already"):
        main([*flags, "--max-tokens", "7"])


def test_a_low_share_is_told_and_listed(index, table, tmp_path, capsys):
    imported(index, table, tmp_path)
    assert "has read" not in capsys.readouterr().err
    documents = imported(index, table, tmp_path, "--max-tokens", "4")
    share = read_shares(documents, index.forward.lengths).mean()
    assert 0.1 < share < 0.7
    message = f"m: the encoder has read about {100 * share:.0f} % of the texts, 4 tokens of each (--max-tokens)"
    assert message in capsys.readouterr().err
    main(["--index", str(index.path)])
    assert f" {100 * share:.0f} % " in capsys.readouterr().out


def test_a_limit_that_is_no_count_is_refused(index, table, tmp_path):
    documents = imported(index, table, tmp_path, "--max-tokens", "4")
    nearness = {"mean": documents.nearness.mean, "usual": np.array([documents.nearness.usual])}
    arrays = {"matrix": documents.matrix, "present": documents.present, **nearness}
    store.validate(documents.meta, arrays)
    for value in (-1, "4", 2.5):
        parameters = {**documents.meta["parameters"], "max_tokens": value}
        with pytest.raises(ValueError, match=f"max_tokens is {value!r}"):
            store.validate({**documents.meta, "parameters": parameters}, arrays)


def test_auto_trusts_vectors_of_long_documents_less(index, table, tmp_path):
    write_npz(tmp_path / "q.npz", ["1"], np.ones((1, 4), dtype=np.float32))
    documents = imported(index, table, tmp_path, "--max-tokens", "4")
    opened = kernelsearch.open(index.path, vectors={"queries": str(tmp_path / "q.npz")})
    factor = reliability(documents, opened.forward.lengths, opened.forward.live)
    assert factor < 0.9
    auto = AutoReranker(opened)
    weights = dict(zip(auto.recipe, auto.weights.tolist(), strict=True))
    assert weights["dense:m"] == pytest.approx(3 * factor) and weights["mslm"] == 0.75
    assert Features(opened, ["hybrid:m/rm"]).features[0].weight == pytest.approx(1.25 * factor)
