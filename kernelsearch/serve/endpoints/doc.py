"""A document as it was indexed: `/v1/{index}/doc/{docid}`."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelsearch.serve.catalogue import ServedIndex
from kernelsearch.serve.parameters import PARSE, Parameters
from kernelsearch.serve.ranking import Answer, row_of
from kernelsearch.serve.routes import query_route

PARAMETERS = (PARSE,)


class DocAnswer(Answer):
    """A stored document."""

    docid: str
    doc: Any


def get_document(served: ServedIndex, docid: str, parameters: Parameters) -> DocAnswer:
    """A document as it was indexed."""
    docs = served.texts.answers(np.array([row_of(served, docid)], dtype=np.int32), parameters.parse)
    return {"api": "v1", "index": served.name, "docid": docid, "doc": docs[0]}


add = query_route("/v1/{index}/doc/{docid:path}", get_document, PARAMETERS)
