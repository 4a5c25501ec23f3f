"""The parameters of requests, declared once as data: checked here, listed in OpenAPI and in /v1/methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from kernelsearch.api.spec import Values, check
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Option, unknown_option
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.serve.filters import Filter
from kernelsearch.serve.settings import RequestLimits

#: Upper bounds of the number of parameters and of filters.
MAX_PARAMETERS, MAX_FILTERS = 200, 8


def text_option(name: str, help: str, default: str | None = None, **more: Any) -> Option:
    """A parameter that is any text: `name`, `help`, `default` and `more` are those of `Option`."""
    return Option(name, str, default, help, requests=True, **more)


QUERY = text_option("query", "the query's text; may be left out where `topic` is given")
HITS = Option("hits", int, 10, "documents in the answer", low=1)
OFFSET = Option("offset", int, 0, "documents of the list to skip before the first one in the answer", low=0)
FIELDS = text_option(
    "fields", "fields of the documents to return, separated by commas; default: all", many=True, request_values=50
)
FILTER = text_option(
    "filter",
    "a condition on a stored field, such as `category=plumbing` or `minutes<=30` (operators = != < <= > >=); all of several "
    "must hold. The candidates of the first stage and of the methods are filtered, not the whole index",
)
PARSE = Option("parse", bool, True, "return documents that are JSON as JSON instead of text")
HIGHLIGHT = Option("highlight", bool, False, "list the words of the documents that match the query")
TOPIC = text_option("topic", "a judged topic of the collection: adds its measures and the documents' grades")
DOCID = text_option("docid", "the document to explain; default: the first one of the list")
RERANK = text_option("rerank", "a method; several, separated by commas, are applied one after the other")
#: `rerank` of explanations.
METHOD = text_option("rerank", "the method whose score is explained; default: the first stage")
CANDIDATES = Option(
    "candidates",
    int,
    None,
    "documents that the first stage retrieves; default: the maximum, or `offset` + `hits` without rerank and filter",
    low=1,
)


@dataclass(slots=True)
class Parameters:
    """The checked parameters of a request; those that its endpoint does not have keep their defaults.

    `columns` holds the methods of each list, `values` their options and, by "", those of the first stage. `fields` are the
    names of the fields to return, None for all.
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
    values: Values = field(default_factory=dict)


def _public_options(options: Iterable[Option]) -> list[Option]:
    return [public for option in options if (public := option.for_requests()) is not None]


def first_stage_options() -> list[Option]:
    """The options of the first stage that requests may set."""
    return _public_options(FirstStageSettings.options)


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
        pairs: list[tuple[str, Any]] = []
        for name, value in record.items():
            repeated = name in ("rerank", "filter") and isinstance(value, list)
            pairs += [(name, item) for item in (value if repeated else [value])]
        return self.read_pairs(pair for pair in pairs if pair[1] is not None)

    def read_pairs(self, pairs: Iterable[tuple[str, Any]]) -> Parameters:
        """The parameters in `pairs` of names and values; raises OptionError with the parameter's name."""
        parameters = Parameters()
        others: dict[tuple[str, str], Any] = {}
        single: set[str] = set()
        for name, value in pairs:
            if name == "rerank" and self.ranks:
                self._add_column(parameters, value)
                continue
            if name == "filter" and name in self.own:
                self._add_filter(parameters, value)
                continue
            if name in single:
                raise OptionError("given twice", option=Flag(name[:100]))
            single.add(name)
            if name in self.own:
                setattr(parameters, name, self._parse_own(self.own[name], value))
            elif not self.ranks:
                raise unknown_option(name, self.own.values())
            else:
                owner, dot, rest = name.partition(".")
                others[(owner, rest) if dot and owner else ("", name)] = value
        used = list(dict.fromkeys(method for column in parameters.columns for method in column))
        parameters.values = check(used, others.items(), for_request=True, others=self.own.values())
        if parameters.offset + parameters.hits > self.limits.hits:
            raise OptionError(
                f"with hits it is {parameters.offset + parameters.hits}, the maximum is {self.limits.hits}",
                option=Flag("offset"),
            )
        if parameters.fields is not None and not parameters.parse:
            raise OptionError("has no effect with parse=false", option=Flag("fields"))
        return parameters

    def _parse_own(self, option: Option, value: object) -> Any:
        if isinstance(value, str) and option.kind is str and len(value) > self.limits.query:
            raise OptionError(f"{len(value)} characters, the maximum is {self.limits.query}", option=Flag(option.name))
        return option.parse_request(value)

    def _add_filter(self, parameters: Parameters, value: object) -> None:
        if len(parameters.filters) >= MAX_FILTERS:
            raise OptionError(f"more than {MAX_FILTERS} conditions", option=Flag("filter"))
        text = self._parse_own(self.own["filter"], value)
        try:
            parameters.filters.append(Filter.parse(text))
        except OptionError as problem:
            problem.option = Flag("filter")
            raise

    def _add_column(self, parameters: Parameters, value: object) -> None:
        names = tuple(name.strip() for name in self._parse_own(self.own["rerank"], value).split(","))
        for name in names:
            if name not in registry.names():
                raise OptionError(registry.unknown_method(name), option=Flag("rerank"))
        if self.columns == 1 and parameters.columns:
            names = parameters.columns.pop() + names
        if len(set(names)) < len(names):
            raise OptionError(f"{','.join(names)[:100]!r} names a method twice", option=Flag("rerank"))
        if len(parameters.columns) >= self.columns:
            raise OptionError(f"at most {self.columns} lists can be compared with the first stage", option=Flag("rerank"))
        parameters.columns.append(names)


def _limit_option(option: Option, limits: RequestLimits) -> Option:
    high = {"hits": limits.hits, "offset": limits.hits - 1, "candidates": limits.candidates}.get(option.name)
    return option if high is None else replace(option, high=high, request_high=high)
