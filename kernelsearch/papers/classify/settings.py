"""The options of classify."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kernelsearch.cli.flags import require_training_or_model
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class ClassifySettings(Settings):
    """Options of classify."""

    train: str | None = option(None, 'JSONL file to learn from: {"text": ..., "label": ...} per line; "contents" is read, too')
    model: str | None = option(None, "folder of the classifier: written with --train, read without")
    predict: str | None = option(None, 'JSONL file of texts to label: {"id": ..., "text": ...} per line')
    output: str | None = option(None, "file to write the predictions to; default: standard output")
    graph_texts: str | None = option(
        None, "JSONL file of further texts, without labels, that the graph of related words is made from"
    )
    graph: str | None = option(
        None, "file of similar words, which make the graph of related words: word, word and similarity in (0, 1] per line"
    )
    folds: int | None = option(None, "number of folds of a cross-validation on the texts of --train", low=2)
    random_state: int = option(0, "seed for the folds", low=0)


def check_classify(parser: argparse.ArgumentParser, settings: ClassifySettings) -> None:
    """Ends the command through `parser` where the options `settings` don't belong together or ask for nothing.

    Raises InputError for an output file that is also read.
    """
    require_training_or_model(parser, settings.train, settings.model, settings.predict, settings.folds)
    check_output("output", settings.output, (settings.train, settings.predict, settings.graph, settings.graph_texts))
    if settings.graph and settings.graph_texts:
        parser.error("--graph and --graph-texts exclude each other")
