"""The space of settings to try: options of the first stage and of rerankers, as a grid or as random draws."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Option, find_option, unknown_option
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

#: One point of the space, {name: value}: `k1` for the first stage, `klsa.z` for a method.
Setting = dict[str, Any]


#: What is tried of a method where nothing is named: its parameters with most effect, around their defaults.
DEFAULT_GRIDS = {
    "": {"k1": "0.6,0.9,1.2,1.6", "b": "0.2,0.4,0.6,0.8"},
    "klsa": {"klsa.z": "auto,5,20", "klsa.lambda": "0.3,0.5,0.7,0.9"},
    "mslm": {"mslm.mix": "0.3,0.5,0.7,0.9"},
    "pert": {"pert.alpha": "0.3,0.5,0.7", "pert.docs": "5,10,20"},
}


def default_grid(methods: Sequence[str]) -> dict[str, str]:
    """{parameter: values} for a pipeline for which none are named; "" in DEFAULT_GRIDS is a first stage without methods.

    Raises OptionError where there is no default for one of the methods.
    """
    unknown = [name for name in methods if name not in DEFAULT_GRIDS]
    if unknown:
        known = ", ".join(option.name for option in registry.method(unknown[0]).options) or "none"
        raise OptionError(
            f"{unknown[0]} has no default grid; name what to try with ",
            Flag("try", value=unknown[0]),
            f".NAME=VALUES; names: {known}",
            option=Flag("try"),
        )
    return {name: values for owner in (methods or [""]) for name, values in DEFAULT_GRIDS[owner].items()}


@dataclass(frozen=True)
class Dimension:
    """A parameter with the values to try, or with a range (`low` to `high`) to draw from."""

    name: str
    option: Option
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False

    @property
    def is_range(self) -> bool:
        """Whether values are drawn from a range."""
        return not self.values

    def draw(self, generator: np.random.Generator) -> Any:
        """A random value by `generator`: one of the list, or uniform in the range (or in its logarithm)."""
        if not self.is_range:
            return self.values[generator.integers(len(self.values))]
        if self.option.kind is int and not self.logarithmic:
            return int(generator.integers(int(self.low), int(self.high) + 1))
        if self.logarithmic:
            value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = generator.uniform(self.low, self.high)
        # Four digits distinguish settings well enough, and are short to read and type.
        return round(value) if self.option.kind is int else float(f"{value:.4g}")


def read_dimension(owner: str, name: str, values: Any, methods: Sequence[str]) -> Dimension:
    """The option `name` of the method `owner`, or of the first stage (""), with the `values` to try.

    Values are a collection or a text: `V1,V2,...` (values that are lists themselves are separated by `|`), or a range,
    `LOW..HIGH` or `log:LOW..HIGH`. `methods` are the pipeline's. Raises OptionError for an unknown option and for values that
    the option refuses.
    """
    option = _find_option(owner, name, methods)
    name = f"{owner}.{option.name}" if owner else option.name
    try:
        if not isinstance(values, str):
            parsed = tuple(option.parse(value) for value in values)
        else:
            start, dots, end = values.removeprefix("log:").partition("..")
            if dots:
                return _range(name, option, start, end, values.startswith("log:"))
            parsed = tuple(option.parse(part) for part in (values.split("|") if option.many else _split(values)))
        if not parsed:
            raise OptionError("no value is given")
        if len(set(parsed)) < len(parsed):
            raise OptionError(f"a value is given twice in {values}")
    except OptionError as problem:
        problem.option = Flag("try", value=name)
        raise
    return Dimension(name, option, parsed)


def _split(text: str) -> list[str]:
    """Splits `text` at commas, but not at those in parentheses: a kernel has its parameters there."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _range(name: str, option: Option, start: str, end: str, logarithmic: bool) -> Dimension:
    if option.kind not in (int, float) or option.many:
        raise OptionError("only numbers have ranges; list the values")
    low, high = option.parse(start), option.parse(end)
    if not low < high or (logarithmic and low <= 0):
        raise OptionError(f"{start}..{end} is not a range from a lower to a higher {'positive ' * logarithmic}number")
    return Dimension(name, option, low=float(low), high=float(high), logarithmic=logarithmic)


def _find_option(owner: str, name: str, methods: Sequence[str]) -> Option:
    """The declaration of an option of search, or of train for a method that can be fitted to the index alone."""
    if not owner:
        option = find_option(name, FirstStageSettings.options)
        if option is None:
            raise unknown_option(name, FirstStageSettings.options)
        return option
    method = registry.method(owner)
    trained = find_option(name, method.options) is None and find_option(name, method.fit_options) is not None
    option = method.find_option(name, fit=trained)
    flag = Flag("try", value=f"{owner}.{option.name}")
    if owner not in methods:
        raise OptionError("has no effect without ", Flag("rerank", value=owner), option=flag)
    if trained and method.fitted_option is None:
        raise OptionError(f"{owner} is trained on judgements or clicks, which tune needs for itself", option=flag)
    return option


def grid(dimensions: Sequence[Dimension]) -> Iterator[Setting]:
    """All combinations of values of `dimensions`; the last one changes fastest. Raises OptionError for a range."""
    for dimension in dimensions:
        if dimension.is_range:
            raise OptionError(
                "a range has no grid; list its values, or draw from it with ",
                Flag("samples"),
                " N",
                option=Flag("try", value=dimension.name),
            )
    for values in itertools.product(*(dimension.values for dimension in dimensions)):
        yield dict(zip((dimension.name for dimension in dimensions), values, strict=True))


def draws(dimensions: Sequence[Dimension], count: int, seed: int) -> Iterator[Setting]:
    """`count` distinct settings of `dimensions`, drawn with `seed`, or all there are."""
    ranges = any(dimension.is_range for dimension in dimensions)
    size = math.inf if ranges else math.prod(len(dimension.values) for dimension in dimensions)
    if size <= count:
        yield from grid(dimensions)
        return
    generator = np.random.default_rng(seed)
    seen: set[str] = set()
    misses = 0
    while len(seen) < count and misses < 1000 * count:  # a narrow range of whole numbers may not hold so many
        setting = {dimension.name: dimension.draw(generator) for dimension in dimensions}
        if key(setting) in seen:
            misses += 1
            continue
        seen.add(key(setting))
        yield setting


def key(setting: Setting) -> str:
    """A setting as text; equal settings have equal keys."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False, default=list)


def label(setting: Setting) -> str:
    """A setting as text for readers."""
    return " ".join(f"{name}={_shown(value)}" for name, value in setting.items()) or "as given"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return "auto"
    return (
        "|".join(map(str, value))
        if isinstance(value, tuple | list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def fit_part(method: str, part: dict[str, Any]) -> dict[str, Any]:
    """The options of training in a method's part of a setting: those that search doesn't have."""
    known = {option.key for option in registry.method(method).options}
    return {name: value for name, value in part.items() if name not in known}


def split(setting: Setting, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """A setting's options of the first stage, and those of each method in `names`, by Python names."""
    first = {name.replace("-", "_"): value for name, value in setting.items() if "." not in name}
    parts: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, value in setting.items():
        owner, dot, rest = name.partition(".")
        if dot:
            parts[owner][rest.replace("-", "_")] = value
    return first, parts
