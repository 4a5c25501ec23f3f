"""Graphs of related words from external sources: a file of word vectors, or a folder of WordNet.

The paper recommends such graphs over one estimated on the collection itself (Section 2.2). External words are mapped to
terms by the analyser of the index; forms of the same term ("connected", "connection") share one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines
from kernelsearch.kernels.semantic.graph import SemanticGraph

TermIds = Callable[[Sequence[str]], NDArray[np.int32]]
Analyze = Callable[[Sequence[str]], list[list[str]]]

#: Similarities by WordNet relation: words of one synset, and words of synsets that are one pointer apart.
SAME_SYNSET, NEXT_SYNSET = 1.0, 0.5
#: Pointers followed: hypernym, instance hypernym, similar to, derivationally related, pertainym, holonyms of three kinds.
POINTERS = frozenset(("@", "@i", "&", "+", "\\", "#m", "#s", "#p"))


def terms_of(words: Sequence[str], term_ids: TermIds, analyze: Analyze) -> NDArray[np.int32]:
    """The index's term number of each external word, -1 for unknown words and for what isn't one term, shape (words,).

    `analyze` gives the terms of each text, `term_ids` the numbers of terms.
    """
    tokens = analyze(list(words))
    return term_ids([terms[0] if len(terms) == 1 else "" for terms in tokens])


def vectors_graph(path: Path, term_ids: TermIds, words: int, analyze: Analyze, *, neighbours: int = 20) -> SemanticGraph:
    """From vectors in text form, one word with its numbers per line (word2vec's header is skipped); cosine neighbours by FAISS.

    A term's vector is the mean of its forms' unit vectors. `path` is the file, `words` the vocabulary's size, `neighbours` how
    many each term gets; `term_ids` and `analyze` are those of `terms_of`. Raises InputError for lines of another form, and for
    a file without words of the index.
    """
    import faiss

    names: list[str] = []
    rows: list[NDArray[np.float32]] = []
    for number, line in lines(path):
        name, _, numbers = line.rstrip().partition(" ")
        if number == 1 and len(line.split()) == 2 and line.replace(" ", "").isdigit():
            continue
        try:
            vector = np.array(numbers.split(), dtype=np.float32)
        except ValueError:
            raise InputError("not a word and its numbers", path=path, line=number) from None
        if not len(vector) or (rows and len(vector) != len(rows[0])) or not np.isfinite(vector).all():
            raise InputError(
                f"{len(vector)} numbers where {len(rows[0]) if rows else 'some'} were expected", path=path, line=number
            )
        names.append(name)
        rows.append(vector)
    if not rows:
        raise InputError("no word vectors here", path=path)
    terms = terms_of(names, term_ids, analyze)
    known = np.flatnonzero(terms >= 0)
    if not len(known):
        raise InputError(f"none of its {len(names)} words is in the index", path=path)
    nodes, place = np.unique(terms[known], return_inverse=True)
    unit = np.stack([rows[number] for number in known])
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    mean = np.zeros((len(nodes), unit.shape[1]), dtype=np.float32)
    np.add.at(mean, place, unit)
    mean /= np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-12)
    index = faiss.IndexFlatIP(mean.shape[1])
    index.add(mean)
    similarity, nearest = index.search(mean, min(neighbours + 1, len(nodes)))
    left = np.repeat(nodes, nearest.shape[1])
    return SemanticGraph.from_edges(words, left, nodes[nearest.ravel()], np.minimum(similarity.ravel(), 1.0))


def wordnet_graph(path: Path, term_ids: TermIds, words: int, analyze: Analyze, *, neighbours: int = 20) -> SemanticGraph:
    """From WordNet's own database files (`dict/data.noun` and so on): words of one synset, and of synsets one pointer apart.

    `path` is their folder; the other parameters are those of `vectors_graph`: `neighbours` are the most similar words. Raises
    InputError for a folder without such files and for a line that is no synset.
    """
    files = [path / f"data.{part}" for part in ("noun", "verb", "adj", "adv")]
    if not any(file.is_file() for file in files):
        raise InputError("no WordNet database here (data.noun, data.verb, data.adj or data.adv)", path=path)
    members: dict[tuple[str, str], list[str]] = {}
    links: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for file in files:
        if file.is_file():
            _read_synsets(file, members, links)
    vocabulary = sorted({word for group in members.values() for word in group})
    number = dict(zip(vocabulary, terms_of(vocabulary, term_ids, analyze).tolist(), strict=True))
    groups = {key: np.unique([number[word] for word in group if number[word] >= 0]) for key, group in members.items()}
    pairs = [(group, group, SAME_SYNSET) for group in groups.values()]
    pairs += [(groups[first], groups[second], NEXT_SYNSET) for first, second in links if first in groups and second in groups]
    left = np.concatenate([np.repeat(first, len(second)) for first, second, _ in pairs]).astype(np.int64)
    right = np.concatenate([np.tile(second, len(first)) for first, second, _ in pairs]).astype(np.int64)
    value = np.concatenate([np.full(len(first) * len(second), similarity) for first, second, similarity in pairs])
    return SemanticGraph.from_edges(words, *_strongest(left, right, value, words, neighbours))


def _read_synsets(
    file: Path, members: dict[tuple[str, str], list[str]], links: list[tuple[tuple[str, str], tuple[str, str]]]
) -> None:
    """Reads a data file (wndb(5WN)): offset, file number, type, hex word count, words with ids, pointer count, pointers."""
    for number, line in lines(file):
        if line.startswith("  ") or not line:
            continue  # the licence at the top
        try:
            fields = line.split(" | ")[0].split()
            count = int(fields[3], 16)
            key = (_part(fields[2]), fields[0])
            # A multiword entry (hot_dog) is no single term; an adjective may carry its place, as in "galore(ip)".
            members[key] = [word.partition("(")[0] for word in fields[4 : 4 + 2 * count : 2] if "_" not in word]
            start = 5 + 2 * count
            for place in range(start, start + 4 * int(fields[start - 1]), 4):
                if fields[place] in POINTERS:
                    links.append((key, (_part(fields[place + 2]), fields[place + 1])))
        except (ValueError, IndexError):
            raise InputError("not a synset of WordNet's database", path=file, line=number) from None


def _part(letter: str) -> str:
    return "a" if letter == "s" else letter  # satellite adjectives are in the file of adjectives


def _strongest(
    left: NDArray[np.int64], right: NDArray[np.int64], similarity: NDArray[np.float64], words: int, neighbours: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Distinct edges in both directions, the strongest few per word."""
    word, other = np.concatenate([left, right]), np.concatenate([right, left])
    both = np.concatenate([similarity, similarity])
    keep = word != other
    order = np.lexsort((other, -both))
    order = order[keep[order]]
    _, first = np.unique(word[order] * words + other[order], return_index=True)
    chosen = order[np.sort(first)]
    chosen = chosen[np.lexsort((other[chosen], -both[chosen], word[chosen]))]
    rank = np.arange(len(chosen)) - np.searchsorted(word[chosen], word[chosen], side="left")
    chosen = chosen[rank < neighbours]
    return word[chosen], other[chosen], both[chosen]
