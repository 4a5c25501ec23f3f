"""The parameters of requests as OpenAPI, and as plain data for forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict

from kernelsearch.core.options import Option
from kernelsearch.serve.parameters import MAX_FILTERS, METHOD, Reader


class OptionDescription(TypedDict):
    """An option: its parameter's name, type, bounds, choices, default and help text."""

    name: str
    parameter: Annotated[str, Field(description="its name in requests", examples=["klsa.lambda"])]
    type: Annotated[str, Field(description="integer, number, boolean or string")]
    many: Annotated[bool, Field(description="several values, separated by commas")]
    default: Any
    low: float | None
    high: float | None
    choices: list[Any] | None
    help: str


def describe_option(option: Option, owner: str = "") -> OptionDescription:
    """An option, of the method `owner` if named, as plain data for a form: name, type, bounds, choices, default and help."""
    kind = {int: "integer", float: "number", bool: "boolean", str: "string"}[option.kind]
    return {
        "name": option.name,
        "parameter": f"{owner}.{option.name}" if owner else option.name,
        "type": kind,
        "many": option.many,
        "default": option.default,
        "low": option.low,
        "high": None if option.high == math.inf else option.high,
        "choices": list(option.choices) if option.choices else None,
        "help": option.help,
    }


#: Descriptions of the parameters in paths.
PATH_PARAMETERS: Mapping[str, str] = {"index": "the index's name, as listed by /v1/indexes", "docid": "the document's id"}


def openapi_parameters(reader: Reader | None, path: Iterable[str] = ("index",)) -> list[dict[str, Any]]:
    """The parameters that `reader` reads as OpenAPI parameter objects; `path` names those in the endpoint's path."""
    in_path: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": PATH_PARAMETERS[name], "schema": {"type": "string"}}
        for name in path
    ]
    if reader is None:
        return in_path
    in_query = [_openapi_parameter(option, option.name, reader) for option in (*reader.own.values(), *reader.first.values())]
    for owner, options in reader.methods.items():
        in_query += [_openapi_parameter(option, f"{owner}.{option.name}", reader) for option in options.values()]
    return in_path + in_query


def _openapi_parameter(option: Option, name: str, reader: Reader) -> dict[str, Any]:
    if name in ("rerank", "filter"):
        most, example = (_max_reranks(option, reader), "klsa") if name == "rerank" else (MAX_FILTERS, "category=plumbing")
        items = {"type": "string", "examples": [example], "maxLength": reader.limits.query}
        repeated = {"type": "array", "items": items, "maxItems": most}
        return {"name": name, "in": "query", "description": option.help, "schema": repeated, "explode": True}
    schema: dict[str, Any] = {"type": describe_option(option)["type"]}
    if option.kind is str and option.choices is None:
        schema["maxLength"] = reader.limits.query
    if option.choices:
        schema["enum"] = list(option.choices)
    for bound, key in ((option.low, "minimum"), (option.high, "maximum")):
        if bound is not None and math.isfinite(bound):
            schema[key] = bound
    if option.many:
        schema = {"type": "array", "items": schema, "maxItems": option.request_values}
    if option.default is not None:
        schema["default"] = list(option.default) if option.many else option.default
    parameter = {"name": name, "in": "query", "description": option.help, "schema": schema}
    return {**parameter, "explode": False, "style": "form"} if option.many else parameter


def _max_reranks(option: Option, reader: Reader) -> int:
    """How often a request may name `rerank`: once per list, or once per method of a single list."""
    if option is METHOD:
        return 1
    return reader.columns if reader.columns > 1 else len(reader.methods)


def openapi_body(reader: Reader, **others: dict[str, Any]) -> dict[str, Any]:
    """The parameters that `reader` reads as the schema of a JSON body; `others` are schemas of further names, all required."""
    listed = [parameter for parameter in openapi_parameters(reader, ()) if parameter["name"] not in others]
    properties = {parameter["name"]: {**parameter["schema"], "description": parameter["description"]} for parameter in listed}
    schema = {"type": "object", "properties": {**others, **properties}, "additionalProperties": False}
    return {**schema, "required": list(others)} if others else schema
