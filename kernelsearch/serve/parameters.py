"""The parameters of requests, declared once as data: checked here, listed in OpenAPI and in /v1/methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from kernelsearch.core.errors import Flag, OptionError, nearest
from kernelsearch.core.options import Option
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.serve.filters import Filter
from kernelsearch.serve.settings import RequestLimits

#: Upper bounds for options that declare none, so that a single request cannot ask for unbounded work.
MAX_INT, MAX_FLOAT, MAX_VALUES, MAX_PARAMETERS = 1000, 1e6, 8, 200
#: Upper bounds of the number of fields and of filters.
MAX_FIELDS, MAX_FILTERS = 50, 8

QUERY = Option("query", str, None, "the query's text; may be left out where `topic` is given")
HITS = Option("hits", int, 10, "documents in the answer", low=1)
OFFSET = Option("offset", int, 0, "documents of the list to skip before the first one in the answer", low=0)
FIELDS = Option("fields", str, None, "fields of the documents to return, separated by commas; default: all", many=True)
FILTER = Option(
    "filter",
    str,
    None,
    "a condition on a stored field, such as `category=plumbing` or `minutes<=30` (operators = != < <= > >=); all of several "
    "must hold. The candidates of the first stage and of the methods are filtered, not the whole index",
)
PARSE = Option("parse", bool, True, "return documents that are JSON as JSON instead of text")
HIGHLIGHT = Option("highlight", bool, False, "list the words of the documents that match the query")
TOPIC = Option("topic", str, None, "a judged topic of the collection: adds its measures and the documents' grades")
DOCID = Option("docid", str, None, "the document to explain; default: the first one of the list")
RERANK = Option("rerank", str, None, "a method; several, separated by commas, are applied one after the other")
#: `rerank` of explanations.
METHOD = Option("rerank", str, None, "the method whose score is explained; default: the first stage")
CANDIDATES = Option(
    "candidates",
    int,
    None,
    "documents that the first stage retrieves; default: the maximum, or `offset` + `hits` without rerank and filter",
    low=1,
)

SEARCH = (QUERY, HITS, OFFSET, FIELDS, FILTER, PARSE, HIGHLIGHT, TOPIC, RERANK, CANDIDATES)
COMPARE = (QUERY, HITS, PARSE, HIGHLIGHT, TOPIC, RERANK, CANDIDATES)
#: Without what belongs to a single query: measures, highlighted words.
BATCH = (HITS, OFFSET, FIELDS, FILTER, PARSE, RERANK, CANDIDATES)
EXPLAIN = (QUERY, DOCID, TOPIC, METHOD, CANDIDATES)
DOC = (PARSE,)
SIMILAR = (HITS, PARSE, Option("other", str, None, "a second document, whose similarity is explained"))
SUGGEST = (
    Option("prefix", str, "", "the beginning of a query"),
    Option("limit", int, 10, "maximum number of suggestions", low=1, high=100),
)


@dataclass(slots=True)
class Parameters:
    """The checked parameters of a request; those that its endpoint does not have keep their defaults.

    `columns` holds the methods of each list, `methods` their options by method and name, `first` the options of the first
    stage by name. `fields` are the names of the fields to return, None for all.
    """

    query: str | None = None
    hits: int = HITS.default
    offset: int = OFFSET.default
    fields: tuple[str, ...] | None = None
    filters: list[Filter] = field(default_factory=list)
    parse: bool = PARSE.default
    highlight: bool = HIGHLIGHT.default
    topic: str | None = None
    docid: str | None = None
    candidates: int | None = None
    other: str | None = None
    prefix: str = ""
    limit: int = 10
    columns: list[tuple[str, ...]] = field(default_factory=list)
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)


def public_option(option: Option) -> Option | None:
    """An option as requests may set it, with bounds on every number; None for an option that they may not set."""
    if not option.requests:
        return None
    if isinstance(option.requests, tuple) and option.names != "vectors":
        return replace(option, choices=option.requests)
    if option.kind not in (int, float):
        return option
    high = option.request_high
    if high is None:
        most = MAX_INT if option.kind is int else MAX_FLOAT
        high = most if option.high is None else min(option.high, most)
    # An unbounded number may be infinite; `_parse` compares the others with `request_high`.
    return replace(option, high=option.high if option.unbounded else high, request_high=high)


def _public_options(options: Iterable[Option]) -> list[Option]:
    return [public for option in options if (public := public_option(option)) is not None]


def first_stage_options() -> list[Option]:
    """The options of the first stage that requests may set, without `hits`: that is the length of the answer here."""
    return _public_options(option for option in FirstStageSettings.options if option.name != "hits")


def method_options(name: str) -> list[Option]:
    """The options of the method `name` that requests may set."""
    return _public_options(registry.method(name).options)


class Reader:
    """Checks the parameters of an endpoint's requests.

    Parameters
    ----------
    own : the parameters of the endpoint
    limits : the limits of the server
    ranks : whether the endpoint also takes `rerank` and the options of the first stage and of all methods
    columns : how many lists of methods a request may ask for
    """

    def __init__(self, own: Sequence[Option], limits: RequestLimits, *, ranks: bool = False, columns: int = 1) -> None:
        self.ranks, self.columns, self.limits = ranks, columns, limits
        self.own = {option.name: _limit_option(option, limits) for option in own}
        self.first = {option.name: option for option in first_stage_options()} if ranks else {}
        self.methods = (
            {name: {option.name: option for option in method_options(name)} for name in registry.names()} if ranks else {}
        )

    def read(self, query_string: bytes) -> Parameters:
        """The parameters in `query_string`, still percent-encoded; raises OptionError with the parameter's name."""
        try:
            pairs = parse_qsl(
                query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS
            )
        except UnicodeDecodeError:
            raise OptionError("the query string is not valid UTF-8 in percent-encoding") from None
        except ValueError:
            raise OptionError(f"more than {MAX_PARAMETERS} parameters") from None
        return self.read_pairs(pairs)

    def read_json(self, record: Any, *others: str) -> tuple[Parameters, dict[str, Any]]:
        """The parameters in `record`, a JSON object with the names of a query string; raises OptionError.

        `others` are names that are no parameters; they are returned as they are, where the object has them. Values are strings,
        numbers, booleans and lists of them; null is the default.
        """
        if not isinstance(record, dict) or len(record) > MAX_PARAMETERS:
            raise OptionError(f"body: a JSON object with at most {MAX_PARAMETERS} names is expected")
        rest = {name: record.pop(name) for name in others if name in record}
        return self.read_record(record), rest

    def read_record(self, record: Mapping[str, Any]) -> Parameters:
        """The parameters in `record`, a JSON object, as in `read_json`; raises OptionError."""
        return self.read_pairs(pair for name, value in record.items() for pair in self._json_pairs(name, value))

    def _json_pairs(self, name: str, value: Any) -> list[tuple[str, str]]:
        """A JSON value as pairs of a query string: of methods and filters one pair per value, other lists have commas."""
        if value is None:
            return []
        repeated = name in ("rerank", "filter")
        lists = repeated or ((option := self._option(name)) is not None and option.many)
        values = value if lists and isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) for item in values):
            expected = "a string, a number, true, false, or a list of them" if lists else "a string, a number, true or false"
            raise OptionError(f"{name[:100]}: {expected} is expected")
        texts = [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
        return [(name, text) for text in texts] if repeated else [(name, ",".join(texts))]

    def _option(self, name: str) -> Option | None:
        """The declaration of the parameter `name`; None for an unknown one."""
        owner, _, rest = name.partition(".")
        return self.own.get(name) or self.first.get(name) or self.methods.get(owner, {}).get(rest)

    def read_pairs(self, pairs: Iterable[tuple[str, str]]) -> Parameters:
        """The parameters in `pairs` of names and values; raises OptionError with the parameter's name."""
        parameters = Parameters()
        single: set[str] = set()
        for name, value in pairs:
            if name == "rerank" and self.ranks:
                self._add_column(parameters, value)
                continue
            if name == "filter" and name in self.own:
                self._add_filter(parameters, value)
                continue
            if name in single:
                raise OptionError(f"{name[:100]}: given twice")
            single.add(name)
            if name in self.own:
                setattr(parameters, name, self._parse_own(self.own[name], value))
            elif name in self.first:
                parameters.first[self.first[name].key] = _parse(self.first[name], value, name)
            else:
                self._add_option(parameters, name, value)
        used = {method for column in parameters.columns for method in column}
        for owner, options in parameters.methods.items():
            if owner not in used:
                raise OptionError(f"{owner}.{next(iter(options))}: has no effect without rerank={owner}")
        if parameters.offset + parameters.hits > self.limits.hits:
            raise OptionError(
                f"offset: with hits it is {parameters.offset + parameters.hits}, the maximum is {self.limits.hits}"
            )
        if parameters.fields is not None and not parameters.parse:
            raise OptionError("fields: has no effect with parse=false")
        return parameters

    def _parse_own(self, option: Option, value: str) -> Any:
        if option.kind is str and len(value) > self.limits.query:
            raise OptionError(f"{option.name}: {len(value)} characters, the maximum is {self.limits.query}")
        return _parse(option, value, option.name)

    def _add_filter(self, parameters: Parameters, value: str) -> None:
        if len(parameters.filters) >= MAX_FILTERS:
            raise OptionError(f"filter: more than {MAX_FILTERS} conditions")
        text = self._parse_own(self.own["filter"], value)
        try:
            parameters.filters.append(Filter.parse(text))
        except OptionError as problem:
            problem.option = Flag("filter")
            raise

    def _add_column(self, parameters: Parameters, value: str) -> None:
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            if name not in self.methods:
                hint = nearest(name, self.methods)
                raise OptionError(f"rerank: {name[:100]!r} is not one of {', '.join(self.methods)}{hint}")
        if self.columns == 1 and parameters.columns:
            names = parameters.columns.pop() + names
        if len(set(names)) < len(names):
            raise OptionError(f"rerank: {','.join(names)[:100]!r} names a method twice")
        if len(parameters.columns) >= self.columns:
            raise OptionError(f"rerank: at most {self.columns} lists can be compared with the first stage")
        parameters.columns.append(names)

    def _add_option(self, parameters: Parameters, name: str, value: str) -> None:
        owner, _, rest = name.partition(".")
        option = self.methods.get(owner, {}).get(rest)
        if option is None:
            raise OptionError(f"{name[:100]}: {self._explain_unknown(owner, rest)}")
        parameters.methods.setdefault(owner, {})[option.key] = _parse(option, value, name)

    def _explain_unknown(self, owner: str, rest: str) -> str:
        for option in registry.method(owner).options if owner in self.methods else ():
            if option.name == rest:
                return f"{'names a file, which ' if option.is_file else ''}can only be set when the server is started"
        if owner in self.methods:
            return f"unknown parameter; those of {owner} are {', '.join(self.methods[owner])}"
        return f"unknown parameter; known: {', '.join([*self.own, *self.first])}" + (", METHOD.OPTION" if self.methods else "")


def _limit_option(option: Option, limits: RequestLimits) -> Option:
    high = {"hits": limits.hits, "offset": limits.hits - 1, "candidates": limits.candidates}.get(option.name)
    return option if high is None else replace(option, high=high)


def _parse(option: Option, value: str, name: str) -> Any:
    """The checked value of a parameter; `name` is what errors call it."""
    try:
        if option.many and value.count(",") >= _max_values(option):
            raise OptionError(f"more than {_max_values(option)} values")
        if len(value) > 100 and option.kind is not str:
            raise OptionError("too long for a value")
        parsed = option.parse(value)
        values = parsed if isinstance(parsed, tuple) else (parsed,)
        if option.unbounded and any(item is not None and option.request_high < item < math.inf for item in values):
            raise OptionError(f"a value is above {option.request_high} and not inf")
        return parsed
    except OptionError as problem:
        problem.option = Flag(name)
        raise


def _max_values(option: Option) -> int:
    return MAX_FIELDS if option is FIELDS else MAX_VALUES


def describe_option(option: Option, owner: str = "") -> dict[str, Any]:
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


def openapi_parameters(reader: Reader, path: Iterable[str] = ("index",)) -> list[dict[str, Any]]:
    """The parameters that `reader` reads as OpenAPI parameter objects; `path` names those in the endpoint's path."""
    in_path: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": PATH_PARAMETERS[name], "schema": {"type": "string"}}
        for name in path
    ]
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
        schema = {"type": "array", "items": schema, "maxItems": _max_values(option)}
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
