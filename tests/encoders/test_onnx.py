"""The ONNX encoder against vectors computed by hand from the model's table."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.encoders import onnx, open_encoder
from kernelsearch.encoders.base import Encoder
from tests.encoders.model import DIMS, TABLE, mean_vector, tokens, write_encoder

pytest.importorskip("onnxruntime")
pytest.importorskip("tokenizers")
pytest.importorskip("onnx")

TEXTS = ["dripping tap", "water", "leaking faucet washer water tap", "unknown words here", "fuse fuse water"]


@pytest.mark.parametrize("batch", [1, 2, 32])
def test_mean_pooling_leaves_the_padding_out(tmp_path, batch):
    encoder = open_encoder(str(write_encoder(tmp_path / "m", f"batch = {batch}")))
    expected = np.stack([mean_vector(text) for text in TEXTS])
    assert np.allclose(encoder.documents(TEXTS), expected, atol=1e-6)
    assert np.allclose(encoder.queries(TEXTS), expected, atol=1e-6)


class RecordingSession:
    """A session that records the shape of what the model is given."""

    def __init__(self, session):
        self.session, self.shapes = session, []

    def run(self, outputs, tensors):
        self.shapes += [tensor.shape for name, tensor in tensors.items() if name == "input_ids"]
        return self.session.run(outputs, tensors)


def test_a_batch_is_read_in_parts_without_the_padding_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "AT_ONCE", 14)  # two texts of the longest, seven tokens
    encoder = open_encoder(str(write_encoder(tmp_path / "m")))
    used = []
    open_session = encoder._open
    monkeypatch.setattr(encoder, "_open", lambda threads: RecordingSession(open_session(used.append(threads) or threads)))
    expected = np.stack([mean_vector(text) for text in TEXTS])
    assert np.allclose(encoder.encode(TEXTS, queries=False), expected, atol=1e-6)
    assert sorted(encoder._session.shapes) == [(1, 5), (2, 4), (2, 7)]  # several threads read them
    assert np.array_equal(encoder.encode(TEXTS, queries=False), encoder.encode(TEXTS, queries=True))
    assert used == [1]


def test_cls_pooling_without_normalisation_is_the_first_token(tmp_path):
    encoder = open_encoder(str(write_encoder(tmp_path / "m", 'pooling = "cls"\nnormalise = false')))
    assert np.array_equal(encoder.documents(TEXTS), np.repeat(TABLE[2:3], len(TEXTS), axis=0))


def test_a_model_that_pools_itself(tmp_path):
    folder = write_encoder(tmp_path / "m", 'pooling = "none"\nnormalise = false\noutput = "sums"\nbatch = 1', pooled=True)
    expected = np.stack([TABLE[tokens(text)].sum(axis=0) for text in TEXTS])
    assert np.allclose(open_encoder(str(folder)).documents(TEXTS), expected, atol=1e-5)


def test_prefixes_and_the_longest_length(tmp_path):
    folder = write_encoder(tmp_path / "m", 'query-prefix = "query: "\ndocument-prefix = "washer "\nmax-length = 5')
    encoder = open_encoder(str(folder))
    assert np.allclose(encoder.queries(["tap water tap"])[0], mean_vector("query : tap water tap", 5), atol=1e-6)
    assert np.allclose(encoder.documents(["tap water fuse"])[0], mean_vector("washer tap water fuse", 5), atol=1e-6)


def test_a_model_without_token_types_and_in_a_subfolder(tmp_path):
    folder = write_encoder(tmp_path / "m", token_types=False)
    (folder / "onnx").mkdir()
    (folder / "model.onnx").rename(folder / "onnx" / "model.onnx")
    assert np.allclose(open_encoder(str(folder)).documents(["tap"])[0], mean_vector("tap"), atol=1e-6)


def test_the_declaration_tells_models_apart_but_not_folders(tmp_path):
    first, copy = write_encoder(tmp_path / "a"), write_encoder(tmp_path / "b", "batch = 3")
    other = write_encoder(tmp_path / "c", 'query-prefix = "x"')
    described = [open_encoder(str(folder)).declaration() for folder in (first, copy, other)]
    for description in described:
        description.pop("source")
    assert described[0] == described[1] != described[2]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "model.onnx").write_bytes(b"nothing"), "model.onnx: not an ONNX model"),
        (lambda folder: (folder / "model.onnx").unlink(), "no model.onnx or onnx/model.onnx in it"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "no tokenizer.json in it"),
        (lambda folder: (folder / "tokenizer.json").write_text("{}"), "tokenizer.json: not a tokenizer"),
        (lambda folder: (folder / "encoder.toml").write_text("pooling ="), "encoder.toml: not a TOML file"),
        (lambda folder: (folder / "encoder.toml").write_text('pooling = "max"'), "encoder.toml: pooling: 'max' is not one of"),
        (lambda folder: (folder / "encoder.toml").write_text("size = 3"), "encoder.toml: size: unknown option"),
        (lambda folder: (folder / "encoder.toml").write_text('output = "x"'), "output 'x' is not one of last_hidden_state"),
        (lambda folder: (folder / "encoder.toml").write_text("max-length = 2"), "max-length: above 2 is needed"),
    ],
)
def test_what_is_damaged_is_named(tmp_path, damage, message):
    folder = write_encoder(tmp_path / "m")
    damage(folder)
    with pytest.raises(InputError) as problem:
        open_encoder(str(folder))
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_pooling_that_does_not_fit_the_output_is_refused(tmp_path):
    encoder = open_encoder(str(write_encoder(tmp_path / "m", 'pooling = "none"')))
    with pytest.raises(InputError, match="which pooling 'none' can't take"):
        encoder.documents(["tap"])


@pytest.mark.parametrize(
    ("declaration", "made", "message"),
    [
        ("", [[[1, np.nan], [2, 0], [1, 1]]], "made a value that is not a finite number of the text 'tap'"),
        ("normalise = false", [[[1, np.inf], [2, 0], [1, 1]]], "made a value that is not a finite number of the text 'tap'"),
        ('long-texts = "mean"', [[[1, np.nan], [2, 0], [1, 1]]], "made a value that is not a finite number of the text 'tap'"),
        ("", [[[], [], []]], "made vectors of 0 dimensions; between 1 and 65536 were expected"),
        ("normalise = false", np.ones((1, 3, 65537)), "made vectors of 65537 dimensions; between 1 and 65536 were expected"),
        ("", np.ones((3, 3, 4)), "output 'last_hidden_state' has shape (3, 3, 4) for 1 texts of 3 tokens"),
        ("", np.ones((1, 1, 4)), "output 'last_hidden_state' has shape (1, 1, 4) for 1 texts of 3 tokens"),
        ('pooling = "cls"', np.ones((0, 3, 4)), "output 'last_hidden_state' has shape (0, 3, 4) for 1 texts of 3 tokens"),
        ('pooling = "none"', np.ones((2, 4)), "output 'last_hidden_state' has shape (2, 4) for 1 texts of 3 tokens"),
        ("", [["a"]], "model.onnx: failed on 1 texts of 3 tokens"),
    ],
)
def test_what_a_model_makes_is_checked(tmp_path, monkeypatch, declaration, made, message):
    folder = write_encoder(tmp_path / "m", f"max-length = 3\n{declaration}")
    encoder = open_encoder(str(folder))
    monkeypatch.setattr(encoder, "_session", type("Session", (), {"run": lambda *_: [made]})())
    with pytest.raises(InputError) as problem:
        encoder.documents(["tap"])
    assert message in str(problem.value) and str(folder) in str(problem.value)


@pytest.mark.parametrize("made", [np.ones((2, 3)), np.ones(3), np.full((1, 3), np.nan), np.ones((1, 0))])
def test_what_an_encoder_of_another_library_makes_is_checked(made):
    class Odd(Encoder):
        source = "sentence-transformers:odd"

        def declaration(self):
            return {}

        def encode(self, texts, *, queries):
            return made

    for method in (Odd().documents, Odd().queries):
        with pytest.raises(InputError, match=r"encoder sentence-transformers:odd: made "):
            method(["tap"])


def test_dimensions_are_bounded_before_a_text_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(onnx, "MAX_DIMS", DIMS - 1)
    with pytest.raises(InputError, match=r"model\.onnx: makes vectors of 6 dimensions; between 1 and 5 were expected"):
        open_encoder(str(write_encoder(tmp_path / "m")))


def test_a_missing_library_is_named(tmp_path, monkeypatch):
    folder = write_encoder(tmp_path / "m")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(OptionError, match=r"onnxruntime is not installed; pip install .*\[encode\]"):
        open_encoder(str(folder))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        open_encoder(str(tmp_path / "none"))


def test_a_model_that_fails_on_a_text_is_named(tmp_path):
    """The tokenizer of another model gives a token that the table of this one doesn't have."""
    folder = write_encoder(tmp_path / "m")
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"tap": 5', '"tap": 999'))
    with pytest.raises(InputError, match=r"model.onnx: failed on 1 texts of 3 tokens \("):
        open_encoder(str(folder)).documents(["tap"])


@pytest.mark.parametrize("batch", [1, 3])
def test_long_documents_are_the_mean_of_their_passages(tmp_path, batch):
    """Five tokens at once, of which two are special: passages of three words."""
    folder = write_encoder(tmp_path / "m", f'max-length = 5\nlong-texts = "mean"\nbatch = {batch}')
    encoder = open_encoder(str(folder))
    long = "tap water fuse washer water faucet leaking"
    passages = np.stack([mean_vector(text) for text in ("tap water fuse", "washer water faucet", "leaking")])
    mean = passages.mean(axis=0)
    made = encoder.documents([long, "tap"])
    assert np.allclose(made[0], mean / np.linalg.norm(mean), atol=1e-6)
    assert np.allclose(made[1], mean_vector("tap"), atol=1e-6)
    assert np.allclose(encoder.queries([long])[0], mean_vector("tap water fuse"), atol=1e-6)


def test_vectors_of_encoders_that_cut_keep_their_declaration(tmp_path):
    cut, mean = (open_encoder(str(write_encoder(tmp_path / kind, f'long-texts = "{kind}"'))) for kind in ("cut", "mean"))
    assert "long_texts" not in cut.declaration() and mean.declaration()["long_texts"] == "mean"
