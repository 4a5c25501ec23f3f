"""What ids of documents and topics may be: the libraries and file formats behind us can't hold every string."""

from __future__ import annotations

import re

from kernelsearch.core.errors import Flag, InputError, quote

#: The longest id, in bytes of UTF-8: Lucene refuses terms of more than 32,766, and an id is one term.
MAX_ID = 32_766
#: White space separates the columns of runs; control characters end strings in trec_eval's C code or reach terminals.
_REFUSED = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_id(text: str, what: str, place: str) -> str:
    """Returns `text`, an id. Raises InputError for one that is empty, too long, or has white space or control characters in it.

    `what` is "document" or "topic", `place` the file and line for messages.
    """
    if not text:
        raise InputError(f"a {what} without an id", path=place)
    if text.startswith("\ufeff"):
        raise InputError(f"{what} id {quote(text)} begins with a byte-order mark; were two files joined?", path=place)
    if _REFUSED.search(text):
        advice = ("; ", Flag("number-documents", value=True), " numbers the documents instead") if what == "document" else ()
        raise InputError(f"{what} id {quote(text)} has white space or a control character in it", *advice, path=place)
    if len(text) > MAX_ID // 4 and len(text.encode()) > MAX_ID:
        raise InputError(f"{what} id {quote(text)} has more than {MAX_ID} bytes", path=place)
    return text
