"""The flags of `python -m pyserini.search.lucene` that `kernelsearch.search` takes besides its own, with the same meaning.

What searches something else than words (dense vectors, learned impacts) is refused with what to do instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernelsearch.api.index import Index
from kernelsearch.cli.search_settings import PyseriniSettings, SearchSettings
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.lucene.first_stage import FirstStage

logger = logging.getLogger(__name__)

_ELSEWHERE = (
    "make the run with python -m pyserini.search.lucene, then rerank it: "
    "python -m kernelsearch.search --index INDEX --topics TOPICS --run THAT --rerank METHOD --output NEW"
)
#: flag: (whether it takes a value, what it is about)
REFUSED = {
    "dense": (False, "dense vectors are not searched here"),
    "hnsw": (False, "dense vectors are not searched here"),
    "flat": (False, "dense vectors are not searched here"),
    "ef-search": (True, "dense vectors are not searched here"),
    "impact": (False, "learned impacts are not searched here"),
    "encoder": (True, "queries are not encoded here"),
    "onnx-encoder": (True, "queries are not encoded here"),
    "encoded-corpus": (True, "learned impacts are not searched here"),
    "min-idf": (True, "learned impacts are not searched here"),
}


#: k1 and b that Pyserini sets by itself, by the names of its prebuilt indexes.
MSMARCO = {
    "msmarco-passage msmarco-v1-passage msmarco-v1-passage-slim msmarco-v1-passage-full": (0.82, 0.68),
    "msmarco-v1-passage-d2q-t5 msmarco-v1-passage.d2q-t5 msmarco-v1-passage.d2q-t5-docvectors": (2.18, 0.86),
    "msmarco-v1-doc msmarco-v1-doc-slim msmarco-v1-doc-full": (4.46, 0.82),
    "msmarco-v1-doc-segmented msmarco-v1-doc-segmented-slim msmarco-v1-doc-segmented-full": (2.16, 0.61),
    "msmarco-v1-doc.d2q-t5 msmarco-v1-doc.d2q-t5-docvectors": (4.68, 0.87),
    "msmarco-v1-doc-segmented.d2q-t5 msmarco-v1-doc-segmented.d2q-t5-docvectors": (2.56, 0.59),
}


class _Refuse(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        assert option_string is not None
        raise OptionError(f"{option_string}: {REFUSED[option_string.removeprefix('--')][1]}; {_ELSEWHERE}")


def add_refused(parser: argparse.ArgumentParser) -> None:
    """Flags that are understood, but only to say what to do instead; and --prcl, which is --rerank prcl."""
    for name, (takes_value, _) in REFUSED.items():
        parser.add_argument(f"--{name}", action=_Refuse, nargs=None if takes_value else 0, help=argparse.SUPPRESS)
    parser.add_argument(
        "--prcl", nargs="+", default=[], metavar="NAME", help="the same as --rerank prcl --prcl.classifiers NAME"
    )


def check_formats(arguments: argparse.Namespace) -> None:
    """Pyserini's names of formats: `default` is guessing, the others are refused with what to do."""
    topics, output = getattr(arguments, "topics_format", None), getattr(arguments, "output_format", None)
    if topics == "default":
        del arguments.topics_format
    if topics in ("kilt", "mbeir", "multimodal", "raw_jsonl"):
        raise OptionError(f"--topics-format: {topics}: not read here; write the topics as TSV (id, tab, text)")
    if output == "kilt":
        raise OptionError("--output-format: kilt: not written here; write trec, and add the provenance from it")


def take_prcl(arguments: argparse.Namespace) -> None:
    """`--prcl lr svm` as the method and its option."""
    if not arguments.prcl:
        return
    if "prcl" not in arguments.rerank:
        arguments.rerank.insert(0, "prcl")
    setattr(arguments, "prcl.classifiers", ",".join(arguments.prcl))


def first_stage(first: FirstStage, settings: PyseriniSettings) -> FirstStage:
    """The first stage with boosted fields and query generators."""
    if settings.dismax and settings.bm25qs:
        raise OptionError("--dismax and --bm25qs exclude each other")
    if settings.dismax and not settings.fields:
        raise OptionError("--dismax: has no effect without --fields")
    return dataclasses.replace(
        first,
        fields=tuple(_boost(text) for text in settings.fields or ()),
        dismax=settings.dismax_tiebreaker if settings.dismax else None,
        query_side=settings.bm25qs,
        rounded=settings.anserini_scores,
    )


def _boost(text: str) -> tuple[str, float]:
    name, equals, boost = text.partition("=")
    try:
        if not (name and equals):
            raise ValueError
        return name, float(boost)
    except ValueError:
        raise OptionError(f"--fields: {text!r} should read FIELD=WEIGHT, such as title=2") from None


def query_language(settings: SearchSettings) -> str | None:
    """The language to analyse queries in: tokens are taken as they are where a flag says that topics hold tokens."""
    if settings.pretokenized and settings.tokenizer:
        raise OptionError("--pretokenized and --tokenizer exclude each other")
    if settings.stopwords and settings.engine != "local":
        raise OptionError("--stopwords: the file stays here; it works with --engine local only")
    if settings.stopwords and not Path(settings.stopwords).is_file():
        raise InputError(f"--stopwords: {settings.stopwords}: no such file")
    return "whitespace" if settings.pretokenized or settings.tokenizer else settings.language


def set_stopwords(index: Index, path: str | None) -> None:
    """Analyses queries with other stop words."""
    if path is not None:
        from kernelsearch.lucene.index import english_with_stopwords

        lucene = index.lucene  # starts Java, which the analyser needs
        lucene.analyzer = english_with_stopwords(path)


def prebuilt(index: str | tuple[str, ...]) -> str | None:
    """The folder of the prebuilt index of that name, where the full pyserini is installed and knows one."""
    if not isinstance(index, str) or Path(index).exists() or Path(index).name != index or find_spec("torch") is None:
        return None
    from kernelsearch.integrations.pyserini import download_prebuilt

    try:
        return download_prebuilt(index)
    except InputError:
        return None


def take_bm25(arguments: argparse.Namespace, name: str) -> None:
    """BM25 as Pyserini sets it by itself for a prebuilt index of MS MARCO, unless flags say how to rank."""
    known = [values for names, values in MSMARCO.items() if name in names.split()]
    if known and not {"k1", "b", "qld", "qljm"} & vars(arguments).keys():
        arguments.k1, arguments.b = known[0]
        logger.info("%s: k1=%g, b=%g, as Pyserini sets them", name, arguments.k1, arguments.b)


def named_topics(name: str, field: str) -> dict[str, str] | None:
    """The topics that Pyserini has under a name, {qid: text}; None for names that it doesn't know, and for paths."""
    if ":" in name or Path(name).exists() or Path(name).name != name:
        return None
    if find_spec("torch") is None:
        raise InputError(
            f"--topics: {name}: no such file; if it is one of Pyserini's names, pip install kernelsearch[pyserini]"
        )
    from kernelsearch.integrations.pyserini import pyserini_topics

    found = pyserini_topics(name)
    if found is None:
        return None
    try:
        return {str(qid): " ".join(parts[part] for part in field.split("+")) for qid, parts in found.items()}
    except KeyError as part:
        raise InputError(f"--topics-field: {name} has no {part.args[0]!r}") from None


def tokenised(topics: dict[str, str], name: str | None) -> dict[str, str]:
    """Topics cut by a tokenizer of Hugging Face, tokens separated by blanks."""
    if name is None:
        return topics
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise OptionError("--tokenizer: transformers is not installed; pip install transformers") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, clean_up_tokenization_spaces=True)
    except (OSError, ValueError) as problem:
        raise InputError(f"--tokenizer: {name}: {' '.join(str(problem).split())[:150]}") from None
    return {qid: " ".join(tokenizer.tokenize(text)) for qid, text in topics.items()}


def tidied(docids: Sequence[str], scores: Sequence[float], qid: str, settings: SearchSettings) -> tuple[list[str], list[float]]:
    """A list after --remove-duplicates, --remove-query and --max-passage, in the order in which Pyserini applies them."""
    named = list(zip(docids, scores, strict=True))
    if settings.remove_duplicates:
        named = _firsts(named)
    if settings.remove_query:
        named = [one for one in named if one[0] != qid]
    if settings.max_passage:
        documents = [(docid.split(settings.max_passage_delimiter)[0], score) for docid, score in named]
        named = _firsts(documents)[: settings.max_passage_hits]
    return [docid for docid, _ in named], [score for _, score in named]


def _firsts(named: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The first entry of each docid."""
    seen: dict[str, float] = {}
    for docid, score in named:
        seen.setdefault(docid, score)
    return list(seen.items())
