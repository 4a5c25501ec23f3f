"""`python -m kernelsearch.classify`: trains a classifier of texts, predicts labels, and cross-validates."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np

from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import check_output, write_file
from kernelsearch.core.options import Settings, option
from kernelsearch.core.reading import lines, parse_json
from kernelsearch.kernels.semantic.sources import read_similarities
from kernelsearch.learning.mkl.text_classifier import (
    ClassifierSettings,
    LabelledTexts,
    bag_of_words,
    cross_validate,
    load,
    save,
)


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
    if flags.train is None and (flags.model is None or flags.predict is None):
        parser.error("--train, or --model and --predict, are needed")
    if flags.train is not None and not (flags.folds or flags.model or flags.predict):
        parser.error("--train: name what is asked for: --folds, --model or --predict")
    check_output("--output", flags.output, (flags.train, flags.predict, flags.graph, flags.graph_texts))
    if flags.graph and flags.graph_texts:
        parser.error("--graph and --graph-texts exclude each other")
    records = _read_records(flags.predict) if flags.predict is not None else []  # before the work
    if flags.train is not None:
        if flags.model is not None:
            refuse_foreign(flags.model)  # before the work
        data = _read_training(flags.train, flags.graph_texts, flags.graph)
        if flags.folds is not None:
            predictions = cross_validate(data, settings.pipeline, flags.folds, flags.random_state, console.progress)
            plain = cross_validate(data, bag_of_words, flags.folds, flags.random_state)
            labels, count = np.array(data.labels), len(data.labels)
            print(f"accuracy {np.mean(predictions == labels):.4f} ({count} texts, {flags.folds} folds)")
            most = np.unique(labels, return_counts=True)[1].max() / count
            console.notice(
                f"for comparison: a linear SVM on tf·idf, same folds {np.mean(plain == labels):.4f}; always the most frequent "
                f"label {most:.4f}"
            )
        model = data.fit(settings.pipeline) if flags.model or flags.predict else None
        if flags.model is not None:
            save(flags.model, data, settings)
            console.notice(f"{flags.model}: fitted on {len(data.texts)} texts")
    else:
        data, settings = load(flags.model or "")
        model = data.fit(settings.pipeline)
    if flags.predict is not None and model is not None:
        labels = model.predict([text for _, text, _ in records])
        rows = [json.dumps({"id": name, "label": str(label)}) for (name, _, _), label in zip(records, labels, strict=True)]
        if flags.output is None:
            print("\n".join(rows))
            return
        with write_file(flags.output) as stream:
            stream.writelines(f"{row}\n" for row in rows)
        console.notice(f"{flags.output}: {len(rows)} texts")


def _read_training(path: str, graph_texts: str | None, graph: str | None) -> LabelledTexts:
    records = _read_records(path)
    for number, (_, _, label) in enumerate(records, 1):
        if label is None:
            raise InputError(f"{path}: text {number} has no label")
    others = tuple(text for _, text, _ in _read_records(graph_texts)) if graph_texts else ()
    texts, labels = tuple(text for _, text, _ in records), tuple(str(label) for _, _, label in records)
    similarities = read_similarities(graph) if graph else None
    if similarities is not None:
        vocabulary = set(re.findall(r"\w+", " ".join(texts).lower()))
        if not any({first.lower(), second.lower()} <= vocabulary for first, second, _ in similarities):
            raise InputError(f"{graph}: both words of a line must be in the training texts; there is no such line")
    return LabelledTexts(texts, labels, others, similarities)


def _read_records(path: str) -> list[tuple[str, str, str | None]]:
    """(id, text, label or None) of each line; the line's number where a record has no id."""
    out = []
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            if not line.lstrip().startswith("{"):
                raise ValueError
            record = parse_json(line, f"{path}: line {number}")
            text = record["text"] if "text" in record else record["contents"]
            if not isinstance(text, str):
                raise TypeError
        except (ValueError, KeyError, TypeError):
            raise InputError(f'{path}: line {number}: not a JSON record such as {{"text": ..., "label": ...}}') from None
        label = record.get("label")
        out.append((str(record.get("id", number)), text, None if label is None else str(label)))
    if not out:
        raise InputError(f"{path}: is empty")
    return out


if __name__ == "__main__":
    console.run(main)
