"""How errors are answered: a status and one line."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import orjson
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from kernelsearch.core.errors import (
    ArtefactError,
    BusyError,
    ClickLogError,
    DiskFull,
    Flag,
    IndexProblem,
    JavaError,
    KernelSearchError,
)
from kernelsearch.core.plugins import PluginError, plugin_error
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.workers import Overloaded, TimedOut

JSON_TYPE = "application/json"
RETRY_AFTER = "1"
#: Classes of errors that `error_response` answers.
ANSWERED = (KernelSearchError, CannotAct, Refused, Overloaded, TimedOut, HTTPException, Exception)
logger = logging.getLogger("kernelsearch.serve")


def describe_invalid(problem: ValidationError, known: Iterable[str]) -> str:
    """One line about the first `problem` of a JSON value; `known` are the names that the value may have."""
    first = problem.errors()[0]
    where = ".".join(map(str, first["loc"])) or "body"
    unknown = first["type"] == "extra_forbidden" and len(first["loc"]) == 1
    return f"{where}: unknown; known: {', '.join(known)}" if unknown else f"{where}: {first['msg']}"


def error_response(error: Exception) -> Response:
    """The answer to a request that raised an error: `{"error": line}` with a status."""
    status, line, headers = describe_error(error)
    return Response(orjson.dumps({"error": line}), status, headers, JSON_TYPE)


def describe_error(error: Exception) -> tuple[int, str, dict[str, str]]:
    """Status, message and further headers of the answer to `error`; what clients may not see of it is logged instead."""
    match error:
        case JavaError():
            logger.error("%s", error)
            return 500, "the search engine failed; see the server's log", {}
        case BusyError():
            return 503, "the click log is locked by another process; try again later", {"retry-after": RETRY_AFTER}
        case ClickLogError():  # a file of the server, which no client can name
            logger.error("%s", error)
            return 500, error.message(Flag.in_request), {}
        case DiskFull():
            logger.error("%s", error)
            return 507, error.message(Flag.in_request), {}
        case PluginError():
            logger.error("%s", error)
            return 500, f"{error.source} failed; see the server's log", {}
        case KernelSearchError():
            line = " ".join(error.message(Flag.in_request).split())
            return 409 if isinstance(error, IndexProblem | ArtefactError) else 400, line, {}
        case CannotAct():
            return 400, f"the method keeps the first stage's list for this query: {error}", {}
        case Refused():
            return error.status, str(error), {"retry-after": RETRY_AFTER} if error.status == 429 else {}
        case Overloaded():
            return 503, "too many requests at once; try again later", {"retry-after": RETRY_AFTER}
        case TimedOut():
            return 504, "the request took too long; ask for fewer candidates or a simpler method", {}
        case HTTPException():
            return error.status_code, str(error.detail).lower(), dict(error.headers or {})
    blamed = plugin_error(error)
    logger.error("%s", blamed or "unexpected error", exc_info=error)
    if blamed is not None:
        return 500, f"{blamed.source} failed; see the server's log", {}
    return 500, "internal error; see the server's log", {}
