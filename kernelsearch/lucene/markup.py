"""The text of mark-up, by the parser with which Anserini reads TREC and HTML collections (jsoup)."""

from __future__ import annotations

import functools
from typing import Any

from kernelsearch.lucene import jvm


def text_of_markup(markup: str) -> str:
    """The text that Anserini indexes for `markup`: without tags and comments, with entities decoded."""
    jvm.start(building=True)
    # As Java decodes it: half of a surrogate pair is no character.
    return _transform(markup.encode("utf-8", "replace").decode())


@jvm.calls_java
def _transform(markup: str) -> str:
    return str(_transformer().apply(markup)).strip()


@functools.cache
def _transformer() -> Any:
    from jnius import autoclass

    return autoclass("io.anserini.collection.JsoupStringTransform").SINGLETON
