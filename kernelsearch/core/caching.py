"""Results that are computed once per object and dropped with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

Key = TypeVar("Key")
Value = TypeVar("Value")


def once_per_object(function: Callable[[Key], Value]) -> Callable[[Key], Value]:
    """The function of one argument with its results cached, each as long as the argument exists.

    For arrays that are derived from a whole index. Two threads may compute the same result; either is used from then on.
    """
    results: WeakKeyDictionary[Key, Value] = WeakKeyDictionary()

    @wraps(function)
    def cached(argument: Key) -> Value:
        if argument not in results:
            results[argument] = function(argument)
        return results[argument]

    return cached
