"""What people need to read an explanation: titles for the docids in it, and words for its terms, which are stems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson

from kernelsearch.serve.catalogue import ServedIndex

#: Documents whose titles are looked up, and documents whose texts are searched for words.
MAX_TITLES, MAX_TEXTS = 200, 30
#: Distinct words that are analysed.
MAX_WORDS = 20_000
WORD = re.compile(r"\w+")


def titles_and_words(served: ServedIndex, docid: str, explanation: dict[str, Any]) -> dict[str, dict[str, str]]:
    """`titles`, {docid: title}, and `words`, {term: word}, for the docids and terms that an explanation mentions.

    A term's word is its most frequent form in the documents that the explanation mentions, `docid` among them; terms that are
    words already are left out.
    """
    mentioned = set(_strings(explanation))
    tokens = {token for text in mentioned for token in (text, *text.split(), *WORD.findall(text))}
    names = [docid, *sorted(tokens - {docid})]
    rows = served.index.forward.rows_of(names)
    known = rows[rows >= 0].astype(np.int32)
    documents = served.texts.get(known[:MAX_TITLES])
    titles = {document.docid: title for document in documents if (title := _title(document.text, document.json is not None))}
    counts = Counter(
        word.lower() for document in documents[:MAX_TEXTS] for text in document.strings() for word in WORD.findall(text)
    )
    frequent = [word for word, _ in counts.most_common(MAX_WORDS)]
    words: dict[str, str] = {}
    for word, terms in zip(frequent, served.index.lucene.analyze(frequent), strict=True):
        if len(terms) == 1 and terms[0] in tokens:
            words.setdefault(terms[0], word)
    return {"titles": titles, "words": {term: word for term, word in words.items() if term != word}}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _title(text: str | None, is_json: bool) -> str | None:
    record = orjson.loads(text) if text is not None and is_json else None
    title = record.get("title") if isinstance(record, dict) else None
    return " ".join(title.split())[:200] if isinstance(title, str) and title.strip() else None
