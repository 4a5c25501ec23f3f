"""Topics with one right answer, made from any corpus: known items, titles without their documents' titles, conclusions.

They represent the queries on which feedback hurts, of which test collections with many judged documents have none.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tools.data.datasets import Judgements, Topics

Documents = list[dict[str, Any]]

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def read_corpus(path: Path) -> Documents:
    """The documents of a JSONL file."""
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def known_items(documents: Documents, count: int, noise: int = 0, seed: int = 7) -> tuple[Topics, Judgements]:
    """Up to ten words out of one sentence per topic, with the sentence's document as the only answer.

    `noise` adds so many words of another document, drawn by chance, to at most six of the sentence.
    """
    generator = np.random.default_rng(seed)
    topics: Topics = {}
    qrels: Judgements = {}
    for number in generator.permutation(len(documents)):
        sentences = [text for text in SENTENCE_END.split(documents[number]["contents"]) if 8 <= len(text.split()) <= 40]
        if not sentences:
            continue
        words = [word for word in sentences[generator.integers(len(sentences))].split() if generator.random() < 0.4][:10]
        if len(words) < 3:
            continue
        if noise:
            other = documents[generator.integers(len(documents))]["contents"].split() or words
            words = [*words[:6], *(other[place] for place in generator.integers(len(other), size=noise))]
        qid = f"k{len(topics)}"
        topics[qid], qrels[qid] = _plain(" ".join(words)), {str(documents[number]["id"]): 1}
        if len(topics) == count:
            break
    return topics, qrels


def titles(documents: Documents, count: int, seed: int = 3) -> tuple[Documents, Topics, Judgements]:
    """Titles as topics, and the documents without their titles."""
    bodies, usable = [], []
    for number, document in enumerate(documents):
        title, text = document.get("title") or "", document["contents"]
        starts = bool(title) and text.replace("\n", " ").startswith(title.replace("\n", " "))
        body = text[len(title) :] if starts else text
        bodies.append({"id": document["id"], "contents": body})
        if starts and len(body.split()) >= 30 and 4 <= len(title.split()) <= 25:
            usable.append((number, title))
    return bodies, *_topics(documents, usable, count, seed)


def conclusions(documents: Documents, count: int, seed: int = 5) -> tuple[Documents, Topics, Judgements]:
    """Last sentences of abstracts as topics, and the documents without them."""
    bodies, usable = [], []
    for number, document in enumerate(documents):
        sentences = re.split(r"(?<=[.!?])\s+", document["contents"].strip())
        long_enough = len(sentences) >= 5 and 8 <= len(sentences[-1].split()) <= 45
        bodies.append({"id": document["id"], "contents": " ".join(sentences[:-1]) if long_enough else document["contents"]})
        if long_enough:
            usable.append((number, sentences[-1]))
    return bodies, *_topics(documents, usable, count, seed)


def _topics(documents: Documents, usable: list[tuple[int, str]], count: int, seed: int) -> tuple[Topics, Judgements]:
    topics: Topics = {}
    qrels: Judgements = {}
    for place in np.random.default_rng(seed).permutation(len(usable))[:count]:
        number, text = usable[place]
        qid = f"t{len(topics)}"
        topics[qid], qrels[qid] = _plain(text), {str(documents[number]["id"]): 1}
    return topics, qrels


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 -]", " ", text)
