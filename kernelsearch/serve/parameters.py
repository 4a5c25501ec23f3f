"""What a request may say: parameters declared once as data, checked here and listed in OpenAPI and /v1/methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option
from kernelsearch.lucene.first_stage import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.serve.settings import Limits

#: Bounds of options that have none of their own, so that no request asks for more than a moment's work.
MOST_INT, MOST_FLOAT, MOST_VALUES, MOST_FIELDS = 1000, 1e6, 8, 200
#: Closer bounds where the work grows with the square of a number, or with a product of several.
MOST = {
    "similar": 30,
    "pairs-per-query": 50,
    "docs": 100,
    "terms": 100,
    "draws": 64,
    "pool": 1000,
    "groups": 12,
    "rm3-terms": 100,
    "rm3-docs": 100,
    "rocchio-terms": 100,
    "rocchio-docs": 100,
}

QUERY = Option("query", str, None, "the query; may be left out where `topic` is given")
HITS = Option("hits", int, 10, "documents in the answer", low=1)
PARSE = Option("parse", bool, True, "give documents that are JSON as JSON, not as text")
HIGHLIGHT = Option("highlight", bool, False, "list the words of the documents that match the query")
TOPIC = Option("topic", str, None, "a judged topic of the collection: adds its measures and the documents' grades")
DOCID = Option("docid", str, None, "the document to explain; default: the best one")
RERANK = Option("rerank", str, None, "a method; several, separated by commas, work one after the other")
CANDIDATES = Option(
    "candidates", int, None, "documents that the first stage finds; default: as many as may be, or `hits` without rerank", low=1
)

SEARCH = (QUERY, HITS, PARSE, HIGHLIGHT, TOPIC, RERANK, CANDIDATES)
EXPLAIN = (QUERY, DOCID, TOPIC, RERANK, CANDIDATES)
DOC = (PARSE,)
SIMILAR = (HITS, PARSE, Option("other", str, None, "explain why this document is similar"))
SUGGEST = (
    Option("prefix", str, "", "what has been typed so far"),
    Option("limit", int, 10, "suggestions at most", low=1, high=100),
)


@dataclass
class Asked:
    """A request's parameters: its own by name, the columns of methods, and options of methods and of the first stage."""

    own: dict[str, Any]
    columns: list[tuple[str, ...]] = field(default_factory=list)
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)
    first: dict[str, Any] = field(default_factory=dict)


def public(option: Option) -> Option | None:
    """The option as requests may use it: every number bounded, none that names a file."""
    if option.kind is str and option.choices is None:
        return None
    if option.kind not in (int, float):
        return option
    most = MOST.get(option.name, MOST_INT if option.kind is int else MOST_FLOAT)
    high = most if option.high is None else min(option.high, most)
    if option.many:  # infinite scales are meant
        high = option.high if option.high is not None else math.inf
    return replace(option, high=high)


def first_stage_options() -> list[Option]:
    """The first stage's options; how many it finds is a parameter of its own, since `hits` is the answer's length."""
    return [shown for option in FirstStageSettings.options if option.name != "hits" and (shown := public(option)) is not None]


def method_options(name: str) -> list[Option]:
    """A method's options that requests may set."""
    return [shown for option in registry.method(name).options if (shown := public(option)) is not None]


class Reader:
    """Checks the parameters of requests against an endpoint's own and, where it ranks, all options of ranking."""

    def __init__(self, own: Sequence[Option], limits: Limits, *, ranks: bool = False, columns: int = 1) -> None:
        self.ranks, self.columns, self.limits = ranks, columns, limits
        self.own = {option.name: _limited(option, limits) for option in own}
        self.first = {option.name: option for option in first_stage_options()} if ranks else {}
        self.methods = {name: {o.name: o for o in method_options(name)} for name in registry.names()} if ranks else {}
        self.defaults = {name: option.default for name, option in self.own.items() if name != "rerank"}

    def read(self, query_string: bytes) -> Asked:
        """The checked parameters of a query string."""
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
        except UnicodeDecodeError:
            raise OptionError("the address is not valid UTF-8 in percent-encoding") from None
        except ValueError:
            raise OptionError(f"more than {MOST_FIELDS} parameters") from None
        asked = Asked(dict(self.defaults))
        for name, value in pairs:
            if name == "rerank" and self.ranks:
                self._add_column(asked, value)
            elif name in self.own:
                asked.own[name] = self._value(self.own[name], value)
            elif name in self.first:
                asked.first[self.first[name].key] = _checked(self.first[name], value, name)
            else:
                self._add_option(asked, name, value)
        used = {method for column in asked.columns for method in column}
        for owner in asked.methods:
            if owner not in used:
                raise OptionError(f"{owner}.{next(iter(asked.methods[owner]))}: has no effect without rerank={owner}")
        return asked

    def _value(self, option: Option, value: str) -> Any:
        if option.kind is str and len(value) > self.limits.query:
            raise OptionError(f"{option.name}: {len(value)} characters, at most {self.limits.query} are taken")
        return _checked(option, value, option.name)

    def _add_column(self, asked: Asked, value: str) -> None:
        names = tuple(name.strip() for name in value.split(","))
        for name in names:
            if name not in self.methods:
                raise OptionError(f"rerank: {name[:100]!r} is not one of {', '.join(self.methods)}")
        if len(set(names)) < len(names):
            raise OptionError(f"rerank: {value[:100]!r} names a method twice")
        if self.columns == 1 and asked.columns:
            names = asked.columns.pop() + names
        if len(asked.columns) >= self.columns:
            raise OptionError(f"rerank: at most {self.columns} lists can be compared with the first stage")
        asked.columns.append(names)

    def _add_option(self, asked: Asked, name: str, value: str) -> None:
        owner, _, rest = name.partition(".")
        option = self.methods.get(owner, {}).get(rest)
        if option is None:
            raise OptionError(f"{name[:100]}: {self._unknown(owner, rest)}")
        asked.methods.setdefault(owner, {})[option.key] = _checked(option, value, name)

    def _unknown(self, owner: str, rest: str) -> str:
        if owner in self.methods and any(option.name == rest for option in registry.method(owner).options):
            return "names a file, which is set where the server is started"
        if owner in self.methods:
            return f"unknown parameter; those of {owner} are {', '.join(self.methods[owner])}"
        return f"unknown parameter; known: {', '.join([*self.own, *self.first])}" + (", METHOD.OPTION" if self.methods else "")


def _limited(option: Option, limits: Limits) -> Option:
    high = {"hits": limits.hits, "candidates": limits.candidates}.get(option.name)
    return option if high is None else replace(option, high=high)


def _checked(option: Option, value: str, name: str) -> Any:
    """The value, with complaints that name the parameter as the request does."""
    try:
        if option.many and value.count(",") >= MOST_VALUES:
            raise OptionError(f"more than {MOST_VALUES} values")
        if len(value) > 100 and option.kind is not str:
            raise OptionError("too long for a value")
        return option.parse(value)
    except OptionError as problem:
        raise OptionError(f"{name}: {str(problem).removeprefix(f'--{option.name}: ')}") from None


def described(option: Option, owner: str = "") -> dict[str, Any]:
    """An option as plain data: what a form or a slider needs."""
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


def openapi_parameters(reader: Reader, path: Iterable[str] = ("index",)) -> list[dict[str, Any]]:
    """An endpoint's parameters in OpenAPI's form."""
    told = {"index": "the index's name, as /v1/indexes lists it", "docid": "the document's id"}
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "description": told[name], "schema": {"type": "string"}} for name in path
    ]
    for option in reader.own.values():
        found.append(_openapi(option, option.name, reader))
    for option in reader.first.values():
        found.append(_openapi(option, option.name, reader))
    for owner, options in reader.methods.items():
        found += [_openapi(option, f"{owner}.{option.name}", reader) for option in options.values()]
    return found


def _openapi(option: Option, name: str, reader: Reader) -> dict[str, Any]:
    if option.name == "rerank" and name == "rerank":
        items = {"type": "string", "examples": ["klsa"]}
        schema = {"type": "array", "items": items, "maxItems": reader.columns}
        return {"name": name, "in": "query", "description": option.help, "schema": schema, "explode": True}
    schema = {"type": described(option)["type"]}
    if option.kind is str and option.choices is None:
        schema["maxLength"] = reader.limits.query
    if option.choices:
        schema["enum"] = list(option.choices)
    for bound, key in ((option.low, "minimum"), (option.high, "maximum")):
        if bound is not None and math.isfinite(bound):
            schema[key] = bound
    if option.many:
        schema = {"type": "array", "items": schema, "maxItems": MOST_VALUES}
    if option.default is not None:
        schema["default"] = list(option.default) if option.many else option.default
    one = {"name": name, "in": "query", "description": option.help, "schema": schema}
    return {**one, "explode": False, "style": "form"} if option.many else one
