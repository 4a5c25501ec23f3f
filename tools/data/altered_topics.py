"""A collection's own topics and documents, altered: misspelled words, questions, words joined to identifiers, passages.

Judgements remain those of the collection. All draws have fixed seeds.
"""

from __future__ import annotations

import re

import numpy as np

from tools.data.datasets import Judgements, Topics
from tools.data.made_topics import Documents

#: Words that are misspelled or joined: long enough for a wrong letter to leave them recognisable.
LONG_WORD = re.compile(r"[A-Za-z]{4,}")
LETTERS = "abcdefghijklmnopqrstuvwxyz"

#: How a question about a subject begins and ends; Lucene's list of stop words has few of these words.
OPENINGS = (
    "what is known about", "how does one find out about", "where can i read something about", "why do people care about",
    "can you tell me what there is about", "which of these would explain", "who has written about", "does anybody know about",
)  # fmt: skip
ENDINGS = ("", "and why", "please", "and how do you know", "in your opinion", "if there is any")


def misspelled(topics: Topics, share: float = 0.3, seed: int = 17) -> Topics:
    """The `topics` with one wrong letter in this `share` of the words of four and more letters, drawn by chance.

    A letter is exchanged with the next one, left out, doubled, or replaced by another; the first letter stays.
    """
    generator = np.random.default_rng(seed)

    def altered(match: re.Match[str]) -> str:
        word = match[0]
        if generator.random() >= share:
            return word
        place, kind = int(generator.integers(1, len(word) - 1)), generator.integers(4)
        other = LETTERS[generator.integers(len(LETTERS))]
        middle = (word[place + 1] + word[place], word[place + 1], word[place] * 2 + word[place + 1], other + word[place + 1])
        return word[:place] + middle[kind] + word[place + 2 :]

    return {qid: LONG_WORD.sub(altered, text) for qid, text in topics.items()}


def typo(word: str, rng: np.random.Generator) -> str:
    """A `word` with one letter lost, doubled, swapped or wrong; short words stay."""
    if len(word) < 4:
        return word
    at = int(rng.integers(1, len(word) - 1))
    letter = "abcdefghijklmnopqrstuvwxyz"[int(rng.integers(26))]
    forms = [word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:], word[:at] + letter + word[at + 1 :]]
    forms.append(word[:at] + word[at + 1] + word[at] + word[at + 2 :])
    return forms[int(rng.integers(4))]


def variant(text: str, rng: np.random.Generator) -> str:
    """Another wording of `text`: a fifth of the words dropped, a quarter mistyped, a tenth of the blanks lost."""
    words = text.split()
    typed = []
    for word in words:
        chance = rng.random()
        if chance < 0.2 and len(words) > 2:
            continue
        typed.append(typo(word, rng) if chance < 0.45 else word)
    typed = typed or words
    return typed[0] + "".join(("" if rng.random() < 0.1 else " ") + word for word in typed[1:])


def questions(topics: Topics, seed: int = 19) -> Topics:
    """The `topics` as questions: between an opening and an ending, drawn by chance, that say nothing about the subject."""
    generator = np.random.default_rng(seed)
    out: Topics = {}
    for qid, text in topics.items():
        opening, ending = OPENINGS[generator.integers(len(OPENINGS))], ENDINGS[generator.integers(len(ENDINGS))]
        out[qid] = f"{opening} {text.strip().rstrip('.?')} {ending}".strip()
    return out


def with_identifiers(documents: Documents, share: float = 0.3, seed: int = 23) -> Documents:
    """The `documents` with this `share` of their pairs of neighbouring words joined as in source code, drawn by chance.

    Half of them as `boundaryLayer`, the others as `boundary_layer`: Lucene's tokeniser takes both for one word.
    """
    generator = np.random.default_rng(seed)
    pair = re.compile(rf"({LONG_WORD.pattern}) ({LONG_WORD.pattern})")

    def joined(match: re.Match[str]) -> str:
        draw = generator.random()
        if draw >= share:
            return match[0]
        first, second = match[1].lower(), match[2].lower()
        return f"{first}_{second}" if draw < share / 2 else first + second.capitalize()

    return [{"id": document["id"], "contents": pair.sub(joined, document["contents"])} for document in documents]


def passages(
    documents: Documents, qrels: Judgements, words: int = 60, copies: float = 0.5, seed: int = 29
) -> tuple[Documents, Judgements]:
    """Passages of so many `words` of the `documents`, each beginning in the middle of the one before, and near duplicates.

    Per passage there are `copies` near duplicates on average, in which a tenth of the words is left out. A passage has the
    grade that its document has in `qrels`. Returns the passages as documents, and their judgements.
    """
    generator = np.random.default_rng(seed)
    out: Documents = []
    parts: dict[str, list[str]] = {}
    for document in documents:
        text, names = document["contents"].split(), parts.setdefault(str(document["id"]), [])
        for start in range(0, max(len(text) - words // 2, 1), words // 2):
            passage = text[start : start + words]
            for copy in range(1 + generator.poisson(copies)):
                chosen = [word for word in passage if not copy or generator.random() >= 0.1]
                names.append(f"{document['id']}p{start}c{copy}")
                out.append({"id": names[-1], "contents": " ".join(chosen)})
    judged = {
        qid: {name: grade for docid, grade in grades.items() for name in parts.get(docid, [])} for qid, grades in qrels.items()
    }
    return out, judged
