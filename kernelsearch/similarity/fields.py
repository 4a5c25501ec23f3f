"""Fields of stored records: the kind of each field, and kernels between the value of one document and those of others.

A kernel is 1 for equal values, decreases to 0 with distance, and is 0 where either document lacks the field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.reading import json_object
from kernelsearch.rerankers.base import OpenedIndex

Floats = NDArray[np.float64]

#: Fields that hold text or the docid, and are not compared as values.
NOT_COMPARED = ("id", "docid", "_id", "contents", "text", "title")

#: A text value of more words than this is prose, which is compared by its terms where it is indexed.
NAME_WORDS = 8


def records(index: OpenedIndex, docs: NDArray[np.integer]) -> list[dict[str, Any]]:
    """The stored records of the rows `docs` of `index`; an empty one where none is stored or it isn't JSON."""
    return [json_object(raw) for raw in index.lucene.stored(docs)]


def field_kinds(sample: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The kind of each field in a sample of records: number, date, list, category or string."""
    values: dict[str, list[Any]] = {}
    for record in sample:
        for name, value in record.items():
            if name not in NOT_COMPARED and value not in (None, "", []):
                values.setdefault(name, []).append(value)
    kinds = {name: _kind(column) for name, column in values.items()}
    return {name: kind for name, kind in kinds.items() if kind}


def _kind(column: list[Any]) -> str:
    if all(isinstance(value, list) for value in column):
        return "list"
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        return "number"
    if not all(isinstance(value, str | bool) for value in column):
        return ""
    texts = [str(value) for value in column]
    if all(_day(text) is not None for text in texts):
        return "date"
    if max(len(text.split()) for text in texts) > NAME_WORDS:
        return ""
    return "category" if len(set(texts)) <= max(2, len(texts) // 2) else "string"


def same_category(value: object, others: Sequence[Any]) -> Floats:
    """1 for each of `others` that equals `value`, else 0, shape (others,)."""
    return np.array([float(value is not None and value == other) for other in others])


def shared_items(value: object, others: Sequence[Any]) -> Floats:
    """Jaccard of `value` and each of `others`, shape (others,): the share of items that both lists have.

    A single value is a list of one.
    """
    mine = _items(value)
    sets = [_items(other) for other in others]
    return np.array([len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0 for theirs in sets])


def near_numbers(value: object, others: Sequence[Any], scale: float | None = None) -> Floats:
    """RBF of x = `value` and each y of `others`, exp(-(x - y)² / (2 s²)), shape (others,); 0 for what is no number.

    s is the deviation of `others` unless `scale` gives it.
    """
    numbers = np.array([_number(other) for other in others], dtype=np.float64)
    mine = _number(value)
    known = numbers[np.isfinite(numbers)]
    if not math.isfinite(mine) or not len(known):
        return np.zeros(len(numbers))
    largest = float(np.abs(known).max()) or 1.0  # its square may be beyond the range of numbers
    width = scale or float((known / largest).std()) * largest or 1.0
    with np.errstate(over="ignore"):  # a distance beyond the range gives 0
        distances = ((np.nan_to_num(numbers) - mine) / width) ** 2
    return np.where(np.isfinite(numbers), np.exp(-distances / 2), 0.0)


def near_dates(value: object, others: Sequence[Any], scale: float | None = None) -> Floats:
    """RBF over days of dates such as 2017-03-01; the parameters are those of `near_numbers`, `scale` in days."""
    return near_numbers(_day(value), [_day(other) for other in others], scale)


def like_strings(value: object, others: Sequence[Any]) -> Floats:
    """A string kernel of `value` and each of `others`, shape (others,): the cosine of sets of three letters in a row.

    Spaces at the ends are included.
    """
    mine = _trigrams(value)
    sets = [_trigrams(other) for other in others]
    return np.array([len(mine & theirs) / math.sqrt(len(mine) * len(theirs)) if mine and theirs else 0.0 for theirs in sets])


def _items(value: object) -> set[str]:
    items = value if isinstance(value, list) else [] if value in (None, "") else [value]
    return {str(item).lower() for item in items}


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _day(value: object) -> float | None:
    """Days since year 1 of a date such as 2017-03-01, 2017-03 or 2017."""
    text = str(value).strip().removesuffix("Z")
    for form in ("%Y-%m-%d", "%Y/%m/%d", "%Y-%m", "%d.%m.%Y"):
        try:
            return float(datetime.strptime(text, form).toordinal())
        except ValueError:
            continue
    try:
        return float(datetime.fromisoformat(text).toordinal()) if len(text) > 10 else float(date(int(text), 1, 1).toordinal())
    except (ValueError, OverflowError):  # the latter for whole numbers beyond 32 bits
        return None


def _trigrams(value: object) -> set[str]:
    text = f" {' '.join(str(value).lower().split())} " if value not in (None, "") else ""
    return {text[place : place + 3] for place in range(len(text) - 2)}
