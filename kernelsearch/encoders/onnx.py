"""An encoder from an ONNX model and its tokenizer, with onnxruntime and tokenizers: no torch.

The folder holds `model.onnx` (or `onnx/model.onnx`), `tokenizer.json` and, where the defaults don't fit, `encoder.toml`:

    pooling = "mean"              # mean over the tokens, cls: the first token, none: the model pools itself
    normalise = true              # vectors of unit length
    query-prefix = "query: "      # put before every query
    document-prefix = "passage: " # put before every document
    max-length = 256              # tokens that the model reads at once
    long-texts = "cut"            # longer texts are cut; mean: the mean of the vectors of their passages, documents only
    batch = 32                    # texts per batch
    output = "last_hidden_state"  # the model's output; default: its first
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.core.options import Settings, option
from kernelsearch.core.reading import read_toml
from kernelsearch.core.rows import MAX_DIMS, unit_rows
from kernelsearch.encoders.base import Encoder

MODELS = ("model.onnx", "onnx/model.onnx")
DECLARATION = "encoder.toml"
#: Tokens of a batch that one thread reads at once. With one thread, 32 texts of 256 tokens took 0.81 times the CPU time of one
#: run of all of them, and texts of 16 tokens the same (docs/vectors.md); presumably because of the processor's cache.
AT_ONCE = 512


@dataclass(frozen=True, kw_only=True)
class OnnxSettings(Settings):
    """What `encoder.toml` may say."""

    owner: ClassVar[str] = "encoder"

    pooling: str = option("mean", "how tokens' vectors become the text's", choices=("mean", "cls", "none"))
    normalise: bool = option(True, "bring vectors to unit length")
    query_prefix: str = option("", "text put before every query")
    document_prefix: str = option("", "text put before every document")
    max_length: int = option(256, "tokens that the model reads at once", low=2)
    long_texts: str = option(
        "cut",
        "documents of more tokens: cut, or the mean of the vectors of their passages of that length",
        choices=("cut", "mean"),
    )
    batch: int = option(32, "texts per batch", low=1)
    output: str | None = option(None, "name of the model's output; default: the first")


class OnnxEncoder(Encoder):
    """Runs the ONNX model of `folder` on this machine's CPU."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.source = str(self.folder.absolute())
        if not self.folder.is_dir():
            raise InputError("no such folder", option=Flag("encoder"), path=self.folder)
        models = [self.folder / name for name in MODELS if (self.folder / name).is_file()]
        if not models:
            raise InputError(f"no {' or '.join(MODELS)} in it", option=Flag("encoder"), path=self.folder)
        if not (self.folder / "tokenizer.json").is_file():
            raise InputError("no tokenizer.json in it", option=Flag("encoder"), path=self.folder)
        self.model = models[0]
        self.settings = read_declaration(self.folder / DECLARATION)
        self.batch = self.settings.batch
        try:
            import onnxruntime  # noqa: F401  `_open` uses it
            import tokenizers
        except ImportError as problem:
            raise OptionError(f"{problem.name} is not installed; {install_command('encode')}", option=Flag("encoder")) from None
        # Both libraries raise exceptions of their own making, most of them plain Exception.
        try:
            self._session, self._one_thread = self._open(), False
        except Exception as problem:
            raise InputError(f"not an ONNX model that onnxruntime runs ({_line(problem)})", path=self.model) from None
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception as problem:
            raise InputError(f"not a tokenizer ({_line(problem)})", path=self.folder / "tokenizer.json") from None
        pad = self._tokenizer.padding or {}
        token = pad.get("pad_token", "[PAD]")
        number = self._tokenizer.token_to_id(token)
        self._tokenizer.enable_padding(pad_id=pad.get("pad_id", number or 0), pad_token=token)
        own = self._tokenizer.num_special_tokens_to_add(False)
        if self.settings.max_length <= own:
            raise InputError(
                f"max-length: above {own} is needed, the tokens that every text has", path=self.folder / DECLARATION
            )
        self._tokenizer.enable_truncation(self.settings.max_length)
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        unknown = [name for name in self._inputs if name not in ("input_ids", "attention_mask", "token_type_ids")]
        if unknown:
            raise InputError(f"has an input {unknown[0]!r}; a text encoder takes input_ids and attention_mask", path=self.model)
        outputs = {entry.name: entry.shape for entry in self._session.get_outputs()}
        self._output = self.settings.output or next(iter(outputs))
        if self._output not in outputs:
            raise InputError(f"output {self._output!r} is not one of {', '.join(outputs)}", path=self.folder / DECLARATION)
        dims = outputs[self._output][-1] if outputs[self._output] else None
        if isinstance(dims, int) and not 1 <= dims <= MAX_DIMS:
            raise InputError(f"makes vectors of {dims} dimensions; between 1 and {MAX_DIMS} were expected", path=self.model)

    def declaration(self) -> dict[str, Any]:
        """The settings, and the checksums of model and tokenizer."""
        values = self.settings.to_dict()
        del values["batch"]  # changes nothing but the speed
        if values["long_texts"] == "cut":
            del values["long_texts"]  # the declaration of vectors names it only where it isn't the usual one
        return {
            "source": self.source,
            **{key: value for key, value in values.items() if value is not None},
            "model_sha256": _sha256(self.model),
            "tokenizer_sha256": _sha256(self.folder / "tokenizer.json"),
        }

    def encode(self, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        prefix = self.settings.query_prefix if queries else self.settings.document_prefix
        encoded = self._tokenizer.encode_batch([prefix + text for text in texts])
        if queries or self.settings.long_texts == "cut":
            return self._vectors(encoded)
        passages = [passage for encoding in encoded for passage in (encoding, *encoding.overflowing)]
        made = np.concatenate(
            [self._vectors(passages[start : start + self.batch]) for start in range(0, len(passages), self.batch)]
        )
        counts = [1 + len(encoding.overflowing) for encoding in encoded]
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        means = np.asarray(np.add.reduceat(made, starts, axis=0) / np.array(counts)[:, None], dtype=np.float32)
        return unit_rows(means) if self.settings.normalise else means

    def _vectors(self, encoded: Sequence[Any]) -> NDArray[np.float32]:
        """Vectors of tokenised texts that are padded to one length, shape (texts, dims)."""
        mask = np.array([encoding.attention_mask for encoding in encoded], dtype=np.int64)
        tensors = {"input_ids": np.array([encoding.ids for encoding in encoded], dtype=np.int64), "attention_mask": mask}
        if "token_type_ids" in self._inputs:
            tensors["token_type_ids"] = np.array([encoding.type_ids for encoding in encoded], dtype=np.int64)
        step = max(1, AT_ONCE // max(1, mask.shape[1]))
        parts = [slice(start, start + step) for start in range(0, len(mask), step)]
        if len(parts) == 1:
            return self._run(tensors, parts[0])
        if not self._one_thread:
            # Replaces the other session, so that the weights are in memory once.
            self._session, self._one_thread = self._open(threads=1), True
        with ThreadPoolExecutor(min(os.cpu_count() or 1, len(parts))) as pool:
            return np.concatenate(list(pool.map(lambda part: self._run(tensors, part), parts)))

    def _open(self, threads: int = 0) -> Any:
        """A session of the model whose runs use `threads` threads; 0: all cores, which suits a single text."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = threads
        return onnxruntime.InferenceSession(str(self.model), options, providers=["CPUExecutionProvider"])

    def _run(self, tensors: dict[str, NDArray[np.int64]], texts: slice) -> NDArray[np.float32]:
        """Vectors of some `texts` of a batch, without the padding that ends all of them."""
        mask = tensors["attention_mask"][texts]
        tokens = int(np.flatnonzero(mask.any(axis=0)).max(initial=0)) + 1
        try:
            made = self._session.run([self._output], {name: tensors[name][texts, :tokens] for name in self._inputs})[0]
            hidden = np.asarray(made, dtype=np.float32)
        except Exception as problem:  # onnxruntime's exceptions have no base class of their own
            raise InputError(f"failed on {len(mask)} texts of {tokens} tokens ({_line(problem)})", path=self.model) from None
        return self._pooled(hidden, mask[:, :tokens])

    def _pooled(self, hidden: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        pooling = self.settings.pooling
        expected = mask.shape[:1] if pooling == "none" else mask.shape
        if hidden.shape[:-1] != expected:
            raise InputError(
                f"output {self._output!r} has shape {hidden.shape} for {mask.shape[0]} texts of {mask.shape[1]} tokens, "
                f"which pooling {pooling!r} can't take; {self.folder / DECLARATION} names another output or pooling",
                path=self.model,
            )
        if pooling == "mean":
            counts = np.maximum(mask.sum(axis=1), 1).astype(np.float32)
            vectors = np.einsum("btd,bt->bd", hidden, mask.astype(np.float32)) / counts[:, None]
        else:
            vectors = hidden[:, 0] if pooling == "cls" else hidden
        return unit_rows(vectors) if self.settings.normalise else vectors


def read_declaration(path: Path) -> OnnxSettings:
    """The settings of the file `path`, `encoder.toml`; the defaults where there is none. Raises InputError for unknown ones."""
    if not path.is_file():
        return OnnxSettings()
    table = read_toml(path)
    try:
        return OnnxSettings.of(table)
    except OptionError as problem:
        raise InputError(problem.message(lambda option: option.name), path=path) from None


def _sha256(path: Path) -> str:
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:160]
