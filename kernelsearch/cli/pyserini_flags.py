"""The flags of `python -m pyserini.search.lucene` that `kernelsearch.search` takes besides its own, with the same meaning.

Flags for other kinds of search than by terms (dense vectors, learned impacts) are refused with what to do instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.cli.search_settings import PyseriniSettings, SearchSettings
from kernelsearch.core.errors import InputError, OptionError, shown_path
from kernelsearch.core.installed import install_command
from kernelsearch.core.reading import lines
from kernelsearch.lucene.index import FirstStage

logger = logging.getLogger(__name__)

_INSTEAD = (
    "make the run with python -m pyserini.search.lucene, then rerank it: "
    "python -m kernelsearch.search --index INDEX --topics TOPICS --run THAT --rerank METHOD --output NEW"
)
_DENSE, _IMPACTS, _ENCODED = (
    "dense vectors are not searched here",
    "learned impacts are not searched here",
    "queries are not encoded here",
)
#: Flags that are recognised only to say what to do instead, with the reason.
REFUSED = {
    "--dense": _DENSE,
    "--hnsw": _DENSE,
    "--flat": _DENSE,
    "--ef-search": _DENSE,
    "--impact": _IMPACTS,
    "--encoder": _ENCODED,
    "--onnx-encoder": _ENCODED,
    "--encoded-corpus": _IMPACTS,
    "--min-idf": _IMPACTS,
}
#: Options that `rewrite` may change.
REWRITTEN = frozenset({"prcl", "topics_format", "output_format"})
#: Options that change the first stage or the analysis of queries.
EXTENDING = frozenset(
    {"fields", "dismax", "dismax_tiebreaker", "bm25qs", "anserini_scores", "stopwords", "pretokenized", "tokenizer"}
)

#: k1 and b that Pyserini sets for its prebuilt indexes, by the names of the indexes.
MSMARCO = {
    "msmarco-passage msmarco-v1-passage msmarco-v1-passage-slim msmarco-v1-passage-full": (0.82, 0.68),
    "msmarco-v1-passage-d2q-t5 msmarco-v1-passage.d2q-t5 msmarco-v1-passage.d2q-t5-docvectors": (2.18, 0.86),
    "msmarco-v1-doc msmarco-v1-doc-slim msmarco-v1-doc-full": (4.46, 0.82),
    "msmarco-v1-doc-segmented msmarco-v1-doc-segmented-slim msmarco-v1-doc-segmented-full": (2.16, 0.61),
    "msmarco-v1-doc.d2q-t5 msmarco-v1-doc.d2q-t5-docvectors": (4.68, 0.87),
    "msmarco-v1-doc-segmented.d2q-t5 msmarco-v1-doc-segmented.d2q-t5-docvectors": (2.56, 0.59),
}


def refuse(argv: Sequence[str]) -> None:
    """Raises OptionError for the first flag of REFUSED on a command line, with what to do instead."""
    for word in argv:
        flag = word.partition("=")[0]
        if flag in REFUSED:
            raise OptionError(f"{flag}: {REFUSED[flag]}; {_INSTEAD}")


def rewrite(arguments: argparse.Namespace) -> None:
    """Turns Pyserini's spellings in parsed `arguments` into ours, in place: `--prcl lr svm`, and its names of formats.

    Raises OptionError for a format that is not read or written here.
    """
    topics, output = getattr(arguments, "topics_format", None), getattr(arguments, "output_format", None)
    if topics == "default":
        del arguments.topics_format
    if topics in ("kilt", "mbeir", "multimodal", "raw_jsonl"):
        raise OptionError(f"--topics-format: {topics}: not read here; write the topics as TSV (id, tab, text)")
    if output == "kilt":
        raise OptionError("--output-format: kilt: not written here; write trec, and add the provenance from it")
    if hasattr(arguments, "prcl"):
        if "prcl" not in arguments.rerank:
            arguments.rerank.insert(0, "prcl")
        setattr(arguments, "prcl.classifiers", ",".join(arguments.prcl))


def extend(first: FirstStage, settings: PyseriniSettings) -> FirstStage:
    """The stage `first` with weighted fields, disjunction max, query-side BM25 and rounded scores, as `settings` ask for."""
    if settings.dismax and settings.bm25qs:
        raise OptionError("--dismax and --bm25qs exclude each other")
    if settings.dismax and not settings.fields:
        raise OptionError("--dismax: has no effect without --fields")
    return dataclasses.replace(
        first,
        fields=tuple(_field_weight(text) for text in settings.fields or ()),
        dismax=settings.dismax_tiebreaker if settings.dismax else None,
        query_side=settings.bm25qs,
        rounded=settings.anserini_scores,
    )


def _field_weight(text: str) -> tuple[str, float]:
    name, equals, weight = text.partition("=")
    try:
        if not (name and equals and 0 <= float(weight) < math.inf):
            raise ValueError
        return name, float(weight)
    except ValueError:
        raise OptionError(f"--fields: {text!r} should read FIELD=WEIGHT, such as title=2, with a weight of 0 or more") from None


def query_language(settings: SearchSettings) -> str | None:
    """The language in which queries are analysed under `settings`: none (`whitespace`) where the topics are tokens already."""
    if settings.pretokenized and settings.tokenizer:
        raise OptionError("--pretokenized and --tokenizer exclude each other")
    if settings.stopwords and settings.engine != "local":
        raise OptionError("--stopwords: the file is not sent to workers; it works with --engine local only")
    if settings.stopwords and not Path(settings.stopwords).is_file():
        raise InputError(f"--stopwords: {shown_path(settings.stopwords)}: no such file")
    return "whitespace" if settings.pretokenized or settings.tokenizer else settings.language


def set_stopwords(index: Index, path: str) -> None:
    """Analyses the queries of `index` with the stop words of the file `path`."""
    from kernelsearch.lucene.index import english_with_stopwords

    for _ in lines(path):  # Java reads the file; an invalid one is reported here
        pass
    lucene = index.lucene  # starts Java, which the analyser needs
    lucene.analyzer = english_with_stopwords(path)


def prebuilt_folder(settings: SearchSettings) -> str | None:
    """The folder of Pyserini's prebuilt index of the name `--index` in `settings`, downloaded where it is missing.

    None if there is no such index, or no full pyserini.
    """
    name = settings.index
    if not isinstance(name, str) or Path(name).exists() or Path(name).name != name or find_spec("torch") is None:
        return None
    from kernelsearch.integrations.pyserini_data import download_prebuilt

    try:
        return download_prebuilt(name)
    except InputError:
        return None


def set_bm25(arguments: argparse.Namespace, name: str) -> None:
    """Sets k1 and b in parsed `arguments` as Pyserini does for its prebuilt index `name` of MS MARCO.

    Nothing is set where flags choose the ranking model.
    """
    known = [values for names, values in MSMARCO.items() if name in names.split()]
    if known and not {"k1", "b", "qld", "qljm"} & vars(arguments).keys():
        arguments.k1, arguments.b = known[0]
        logger.info("%s: k1=%g, b=%g, as Pyserini sets them", name, arguments.k1, arguments.b)


def named_topics(name: str, field: str) -> dict[str, str] | None:
    """The topics that Pyserini has under a name, {qid: text}; None for a name that it doesn't know, and for a path.

    `field` names the parts of a topic to search with, joined with +.
    """
    if ":" in name or Path(name).exists() or Path(name).name != name:
        return None
    if find_spec("torch") is None:
        raise InputError(f"--topics: {name}: no such file; if it is one of Pyserini's names, {install_command('pyserini')}")
    from kernelsearch.integrations.pyserini_data import pyserini_topics

    topics = pyserini_topics(name)
    if topics is None:
        return None
    try:
        return {str(qid): " ".join(parts[part] for part in field.split("+")) for qid, parts in topics.items()}
    except KeyError as part:
        raise InputError(f"--topics-field: {name} has no {part.args[0]!r}") from None


def tokenise(topics: dict[str, str], name: str) -> dict[str, str]:
    """The `topics`, {qid: text}, as tokens of the Hugging Face tokenizer `name`, separated by blanks."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise OptionError("--tokenizer: transformers is not installed; pip install transformers") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, clean_up_tokenization_spaces=True)
    except (OSError, ValueError) as problem:
        raise InputError(f"--tokenizer: {name}: {' '.join(str(problem).split())[:150]}") from None
    return {qid: " ".join(tokenizer.tokenize(text)) for qid, text in topics.items()}


def filter_list(
    docids: Sequence[str], scores: Sequence[float], qid: str, settings: SearchSettings
) -> tuple[Sequence[str], Sequence[float]]:
    """The list of the topic `qid` after --remove-duplicates, --remove-query and --max-passage of `settings`, in that order.

    This is Pyserini's order. `docids` and `scores` are the ranked list, best first; returns those that are left.
    """
    if not (settings.remove_duplicates or settings.remove_query or settings.max_passage):
        return docids, scores
    entries = list(zip(docids, scores, strict=True))
    if settings.remove_duplicates:
        entries = _without_duplicates(entries)
    if settings.remove_query:
        entries = [entry for entry in entries if entry[0] != qid]
    if settings.max_passage:
        documents = [(docid.split(settings.max_passage_delimiter)[0], score) for docid, score in entries]
        entries = _without_duplicates(documents)[: settings.max_passage_hits]
    return [docid for docid, _ in entries], [score for _, score in entries]


def _without_duplicates(entries: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """The first entry of each docid."""
    seen: dict[str, float] = {}
    for docid, score in entries:
        seen.setdefault(docid, score)
    return list(seen.items())
