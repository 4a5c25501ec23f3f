"""A small ONNX encoder of our own making: each token's vector is a row of a table, so that pooling can be computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "dripping", "tap", "water", "fuse", "query", ":", "leaking", "faucet", "washer"]
DIMS = 6
#: The vector of each token; the padding's is large, so that counting it would show.
TABLE = np.random.default_rng(11).standard_normal((len(WORDS), DIMS)).astype(np.float32)
TABLE[0] = 100.0


def write_encoder(folder: Path, declaration: str = "", *, pooled: bool = False, token_types: bool = True) -> Path:
    """Writes model.onnx, tokenizer.json and encoder.toml; `pooled` adds an output that is the sum over the tokens."""
    import onnx
    import tokenizers
    from onnx import TensorProto, helper, numpy_helper

    folder.mkdir(parents=True, exist_ok=True)
    shape = ["batch", "tokens"]
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")]
    if token_types:
        inputs.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, shape))
    outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*shape, DIMS])]
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    initial = [numpy_helper.from_array(TABLE, "table")]
    if pooled:
        initial.append(numpy_helper.from_array(np.array([1], dtype=np.int64), "axes"))
        nodes.append(helper.make_node("ReduceSum", ["last_hidden_state", "axes"], ["sums"], keepdims=0))
        outputs.append(helper.make_tensor_value_info("sums", TensorProto.FLOAT, ["batch", DIMS]))
    graph = helper.make_graph(nodes, "encoder", inputs, outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "model.onnx"))

    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    made.normalizer = tokenizers.normalizers.Lowercase()
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.save(str(folder / "tokenizer.json"))
    if declaration:
        (folder / "encoder.toml").write_text(declaration)
    return folder


def tokens(text: str, length: int = 256) -> list[int]:
    """Token numbers of a text, computed without the tokenizer."""
    words = text.lower().replace(".", " . ").replace(",", " , ").replace(":", " : ").split()
    numbers = [WORDS.index(word) if word in WORDS else 1 for word in words]
    return [2, *numbers[: length - 2], 3]


def mean_vector(text: str, length: int = 256) -> np.ndarray:
    """The mean of the tokens' vectors at unit length."""
    mean = TABLE[tokens(text, length)].mean(axis=0)
    return mean / np.linalg.norm(mean)
