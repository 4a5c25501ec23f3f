"""Topics made from any corpus: known items, titles without their documents' titles, conclusions, posts; and abstracts.

All but the last have one right answer. They represent the queries on which feedback hurts, of which test collections with
many judged documents have none. Abstracts are long queries with the right answers of a collection's own topics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tools.data.datasets import Judgements, Topics

Documents = list[dict[str, Any]]

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
#: Where cacm's abstracts end: issue, authors, keywords, codes and citation numbers follow.
RECORD = re.compile(r"\s*\n\nCACM [A-Z][a-z]+, 19\d\d")
#: Words that may be drawn: records of cacm also hold citation numbers, codes and initials, which nobody searches for.
WORD = re.compile(r"[A-Za-z]{3,}(-[A-Za-z]+)*")


def read_corpus(path: Path) -> Documents:
    """The documents of the JSONL file `path`."""
    with open(path, encoding="utf-8") as stream:
        return [json.loads(line) for line in stream]


def known_items(
    documents: Documents, count: int, noise: int = 0, seed: int = 7, codes: bool = True
) -> tuple[Topics, Judgements]:
    """Topics of up to ten words out of one sentence each, with the sentence's document as the only answer; at most `count`.

    `noise` adds so many words of another one of `documents`, drawn by chance, to at most six of the sentence. Without `codes`
    words are made of letters, see WORD. `seed` decides which sentences and words are drawn.
    """
    generator = np.random.default_rng(seed)
    topics: Topics = {}
    qrels: Judgements = {}
    for document, words in _drawn_words(documents, generator, codes, share=0.4, least=3, most=10):
        if noise:
            other = _words(documents[generator.integers(len(documents))]["contents"], codes) or words
            words = [*words[:6], *(other[place] for place in generator.integers(len(other), size=noise))]
        qid = f"k{len(topics)}"
        topics[qid], qrels[qid] = _plain(" ".join(words)), {str(document["id"]): 1}
        if len(topics) == count:
            break
    return topics, qrels


def _drawn_words(
    documents: Documents, generator: np.random.Generator, codes: bool, *, share: float, least: int, most: int
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Documents in random order, each with words drawn from one of its sentences: this share of them, at most `most`.

    Documents without a sentence of 8 to 40 words, or with fewer than `least` drawn words, are left out. `codes` is that of
    `known_items`.
    """
    for number in generator.permutation(len(documents)):
        sentences = [text for text in SENTENCE_END.split(documents[number]["contents"]) if 8 <= len(text.split()) <= 40]
        if not sentences:
            continue
        sentence = _words(sentences[generator.integers(len(sentences))], codes)
        words = [word for word in sentence if generator.random() < share][:most]
        if len(words) >= least:
            yield documents[number], words


def without_words(topics: Topics, share: float = 0.5, seed: int = 5) -> Topics:
    """The `topics` without this `share` of their words, drawn by chance; a topic keeps at least its first word."""
    generator = np.random.default_rng(seed)
    remaining = {qid: [word for word in text.split() if generator.random() > share] for qid, text in topics.items()}
    return {qid: " ".join(words or topics[qid].split()[:1]) for qid, words in remaining.items()}


#: What people write around a claim that they pass on.
CONVERSATION = (
    "just", "saw", "this", "wow", "cannot", "believe", "people", "are", "saying", "that", "so", "true", "please",
    "share", "everyone", "thread", "via", "breaking", "today", "omg", "lol", "really", "think", "about", "it", "guys",
    "thanks", "my", "friend", "told", "me", "yesterday", "watch", "until", "the", "end", "not", "kidding", "huge",
    "if", "literally", "nobody", "talks", "anyone", "else", "heard", "sad", "happy", "morning", "week", "follow",
    "retweet",
)  # fmt: skip


def posts(documents: Documents, count: int, seed: int = 11) -> tuple[Topics, Judgements]:
    """Posts of a social network about one sentence of `documents` each, whose document is the only answer; at most `count`.

    Half of the sentence's words, at most 14, within six to ten words of conversation, a name, a hashtag made of two of the
    words and a shortened address, drawn by chance.
    """
    generator = np.random.default_rng(seed)
    topics: Topics = {}
    qrels: Judgements = {}
    for document, words in _drawn_words(documents, generator, codes=False, share=0.5, least=4, most=14):
        talk = [CONVERSATION[place] for place in generator.integers(len(CONVERSATION), size=generator.integers(6, 11))]
        start, marks = generator.integers(len(talk)), "".join(generator.choice(list("abcdefghijkmnpqrstuvwxyz0123456789"), 10))
        parts = [f"@{marks[:5]}", *talk[:start], *words, *talk[start:], f"#{words[0]}{words[-1]}", f"https://t.co/{marks}"]
        qid = f"p{len(topics)}"
        topics[qid], qrels[qid] = " ".join(parts), {str(document["id"]): 1}
        if len(topics) == count:
            break
    return topics, qrels


def abstracts(
    documents: Documents, qrels: Judgements, count: int, words: int = 60, seed: int = 13
) -> tuple[Documents, Topics, Judgements]:
    """The first `words` words of a document as topics; what else is relevant to a topic of the collection are its answers.

    One relevant document is drawn per topic of `qrels` that has at least three, at most `count`, and all of them are taken out
    of the `documents`. Returns the remaining documents, the topics and their judgements.
    """
    generator = np.random.default_rng(seed)
    texts = {str(document["id"]): document["contents"] for document in documents}
    drawn: dict[str, str] = {}
    for place in generator.permutation(len(qrels)):
        qid = list(qrels)[place]
        free = [
            docid for docid, grade in qrels[qid].items()
            if grade > 0 and docid not in drawn.values() and len(texts.get(docid, "").split()) >= words // 2
        ]  # fmt: skip
        if sum(grade > 0 for grade in qrels[qid].values()) >= 3 and free and len(drawn) < count:
            drawn[qid] = free[generator.integers(len(free))]
    removed = set(drawn.values())
    topics: Topics = {}
    answers: Judgements = {}
    for qid, docid in drawn.items():
        left = {other: 1 for other, grade in qrels[qid].items() if grade > 0 and other not in removed}
        if left:
            topics[qid], answers[qid] = _plain(" ".join(texts[docid].split()[:words])), left
    return [document for document in documents if str(document["id"]) not in removed], topics, answers


def titles(documents: Documents, count: int, seed: int = 3) -> tuple[Documents, Topics, Judgements]:
    """At most `count` titles of `documents` as topics, and the documents without their titles.

    Returns documents, topics and judgements.
    """
    bodies, usable = [], []
    for number, document in enumerate(documents):
        title, text = document.get("title") or "", document["contents"]
        starts = bool(title) and text.replace("\n", " ").startswith(title.replace("\n", " "))
        body = text[len(title) :] if starts else text
        bodies.append({"id": document["id"], "contents": body})
        if starts and len(body.split()) >= 30 and 4 <= len(title.split()) <= 25:
            usable.append((number, title))
    return bodies, *_topics(documents, usable, count, seed)


def conclusions(documents: Documents, count: int, seed: int = 5, codes: bool = True) -> tuple[Documents, Topics, Judgements]:
    """At most `count` last sentences of abstracts as topics, and the `documents` without them.

    Without `codes`, what follows an abstract of cacm (see RECORD) stays in the document and is no sentence of it. Returns
    documents, topics and judgements.
    """
    bodies, usable = [], []
    for number, document in enumerate(documents):
        record = None if codes else RECORD.search(document["contents"])
        end = record.start() if record else len(document["contents"])
        sentences = re.split(r"(?<=[.!?])\s+", document["contents"][:end].strip())
        long_enough = len(sentences) >= 5 and 8 <= len(sentences[-1].split()) <= 45
        body = " ".join(sentences[:-1]) + document["contents"][end:] if long_enough else document["contents"]
        bodies.append({"id": document["id"], "contents": body})
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


def _words(text: str, codes: bool) -> list[str]:
    return text.split() if codes else [result[0] for result in WORD.finditer(text)]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 -]", " ", text)
