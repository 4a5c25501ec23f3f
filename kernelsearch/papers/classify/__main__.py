"""`python -m kernelsearch.classify`: trains a classifier of texts, predicts labels, and cross-validates."""

from __future__ import annotations

import json

import numpy as np
from sklearn.pipeline import Pipeline

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.files import write_file
from kernelsearch.papers.classify.settings import ClassifySettings, check_classify
from kernelsearch.papers.classify.text_classifier import (
    ClassifierSettings,
    LabelledTexts,
    bag_of_words,
    cross_validate,
    load,
    save,
)
from kernelsearch.papers.classify.text_files import TextRecord, read_labelled, read_texts

EXAMPLES = """examples:
  python -m kernelsearch.classify --train train.jsonl --folds 5
  python -m kernelsearch.classify --train train.jsonl --model models/questions
  python -m kernelsearch.classify --model models/questions --predict new.jsonl --output labels.jsonl"""


def main(argv: list[str]) -> None:
    """Parses the flags, then trains, cross-validates and predicts, as far as they ask for it."""
    parser = console.Parser(
        prog="python -m kernelsearch.classify",
        description="Trains and applies text classifiers over multi-scale kernels.",
        epilog=EXAMPLES,
    )
    add_flags(parser, ClassifySettings.options)
    add_flags(parser, ClassifierSettings.options, title="the classifier")
    arguments = parser.parse_args(argv)
    flags, settings = read_flags(ClassifySettings, arguments), read_flags(ClassifierSettings, arguments)
    check_classify(parser, flags)
    records = read_texts(flags.predict) if flags.predict is not None else []  # before the work
    if flags.train is None:
        data, settings = load(flags.model or "")
    else:
        if flags.model is not None:
            refuse_foreign(flags.model)  # before the work
        data = read_labelled(flags.train, flags.graph_texts, flags.graph)
        if flags.folds is not None:
            _cross_validate(data, settings, flags.folds, flags.random_state)
    model = data.fit(settings.pipeline) if flags.model or flags.predict else None
    if flags.train is not None and flags.model is not None:
        save(flags.model, data, settings)
        console.notice(f"{flags.model}: fitted on {len(data.texts)} texts")
    if model is not None and records:
        _predict(model, records, flags.output)


def _cross_validate(data: LabelledTexts, settings: ClassifierSettings, folds: int, seed: int) -> None:
    """Prints the accuracy on held-out texts, with that of simpler classifiers for comparison."""
    labels, count = np.array(data.labels), len(data.labels)
    predictions = cross_validate(data, settings.pipeline, folds, seed, console.progress)
    print(f"accuracy {np.mean(predictions == labels):.4f} ({count} texts, {folds} folds)")
    plain = np.mean(cross_validate(data, bag_of_words, folds, seed) == labels)
    most = np.unique(labels, return_counts=True)[1].max() / count
    console.notice(f"for comparison: a linear SVM on tf·idf, same folds {plain:.4f}; always the most frequent label {most:.4f}")


def _predict(model: Pipeline, records: list[TextRecord], output: str | None) -> None:
    """Writes the label of each text, as JSONL, to the file `output` or to standard output."""
    labels = model.predict([record.text for record in records])
    rows = [json.dumps({"id": record.id, "label": str(label)}) for record, label in zip(records, labels, strict=True)]
    if output is None:
        print("\n".join(rows))
        return
    with write_file(output) as stream:
        stream.writelines(f"{row}\n" for row in rows)
    console.notice(f"{output}: {len(rows)} texts")


if __name__ == "__main__":
    console.run(main)
