"""Source code as a collection: functions of Python packages, with the first sentences of their docstrings as topics."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tools.data.datasets import Judgements, Topics
from tools.data.made_topics import Documents

#: Folders that are no part of a package's own code.
SKIPPED = {"test", "tests", "idlelib", "site-packages", "lib2to3"}
#: Letters of a function that are indexed, the fewest lines of one, and the words of a topic.
LONGEST, FEWEST_LINES, WORDS = 6000, 3, range(4, 31)


def standard_library() -> Path:
    """The folder of the standard library of this Python."""
    return Path(sysconfig.get_paths()["stdlib"])


def functions(folder: Path) -> Iterator[tuple[str, str | None]]:
    """The text of every function below `folder`, without its docstring, and the docstring; in the order of the files' names."""
    for path in sorted(folder.rglob("*.py")):
        if SKIPPED & set(path.relative_to(folder).parts):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
        except (UnicodeDecodeError, SyntaxError):  # files that packages keep in order to test tools with them
            continue
        lines = text.splitlines()
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            docstring, body, end = ast.get_docstring(node), [], node.end_lineno or node.lineno
            first = node.body[0]
            if docstring:
                body = lines[node.lineno - 1 : first.lineno - 1] + lines[first.end_lineno or first.lineno : end]
            else:
                body = lines[node.lineno - 1 : end]
            if len(body) >= FEWEST_LINES:
                yield "\n".join(body)[:LONGEST], docstring


def code_topics(folder: Path, count: int, seed: int = 0) -> tuple[Documents, Topics, Judgements]:
    """The functions below `folder` as documents, and `count` first sentences of docstrings, drawn by chance, as topics.

    The function is the only answer of its sentence. Returns documents, topics and judgements.
    """
    documents: Documents = []
    sentences: dict[str, str] = {}
    for text, docstring in functions(folder):
        name = f"f{len(documents)}"
        documents.append({"id": name, "contents": text})
        sentence = re.split(r"\n\s*\n|(?<=\.)\s", (docstring or "").strip())[0]
        if len(sentence.split()) in WORDS:
            sentences[name] = " ".join(sentence.split())
    names = list(sentences)
    drawn = [names[place] for place in sorted(np.random.default_rng(seed).permutation(len(names))[:count])]
    return documents, {name: sentences[name] for name in drawn}, {name: {name: 1} for name in drawn}


def in_camel_case(documents: Documents) -> Documents:
    """The `documents` with names such as parse_json_file written as parseJsonFile."""
    joint = re.compile(r"(?<=[a-z0-9])_([a-z])")
    return [{**document, "contents": joint.sub(lambda match: match[1].upper(), document["contents"])} for document in documents]
