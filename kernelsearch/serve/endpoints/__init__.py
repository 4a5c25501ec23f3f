"""The endpoints, one module each: its parameters, the shape of its answer, the function that answers, and its route.

A module's `add(app, service)` adds its routes. Another endpoint is another module, and its name in `ENDPOINTS`.
"""

from kernelsearch.serve.endpoints import (
    batch,
    click,
    compare,
    doc,
    documents,
    explain,
    indexes,
    methods,
    search,
    similar,
    status,
    suggest,
    topics,
)

#: In the order of the documentation.
ENDPOINTS = (search, batch, compare, explain, similar, doc, indexes, methods, topics, suggest, status, click, documents)
