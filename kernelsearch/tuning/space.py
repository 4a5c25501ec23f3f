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
from kernelsearch.core.options import Option
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

#: One point of the space, {name: value}: `k1` for the first stage, `klsa.z` for a method.
Setting = dict[str, Any]


#: What is tried of a method where nothing is named: its parameters with most effect, around their defaults.
DEFAULT_GRIDS = {
    "": ("k1=0.6,0.9,1.2,1.6", "b=0.2,0.4,0.6,0.8"),
    "klsa": ("klsa.z=auto,5,20", "klsa.lambda=0.3,0.5,0.7,0.9"),
    "mslm": ("mslm.mix=0.3,0.5,0.7,0.9",),
    "pert": ("pert.alpha=0.3,0.5,0.7", "pert.docs=5,10,20"),
}


def default_grid(methods: Sequence[str]) -> list[str]:
    """The values of `--try` for a pipeline for which none are named; "" in DEFAULT_GRIDS is a first stage without methods.

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
    return [text for name in (methods or [""]) for text in DEFAULT_GRIDS[name]]


def dimension_text(name: str, values: Any, methods: Sequence[str]) -> str:
    """A parameter and its values from Python as the text of `--try`.

    `name` is an option (`k1`), an option of a method (`klsa.z`) or its keyword (`klsa_z`); `values` are the values, or the text
    of VALUES, such as "0.1..0.9"; `methods` are the pipeline's. Raises OptionError for unknown names.
    """
    owner, line, rest = name.partition("_")
    if line and "." not in name and owner in methods:
        name = f"{owner}.{rest.replace('_', '-')}"
    if isinstance(values, str):
        return f"{name}={values}"
    many = find_option(name, methods).many
    return f"{name}={('|' if many else ',').join(_typed(value) for value in values)}"


def _typed(value: object) -> str:
    """A value as the command line takes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else _shown(value) if value is None else str(value)


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


def parse_dimension(text: str, methods: Sequence[str]) -> Dimension:
    """Parses `text`: `NAME=V1,V2,...`, `NAME=LOW..HIGH` or `NAME=log:LOW..HIGH`.

    Values that are lists themselves are separated by `|`. `methods` are the pipeline's. Raises OptionError for unknown names
    and values out of bounds.
    """
    name, sign, values_text = text.partition("=")
    if not sign or not values_text:
        raise OptionError(f"{text!r} is not NAME=VALUES, such as klsa.z=1,5,10 or b=0.1..0.9", option=Flag("try"))
    option = find_option(name, methods)
    start, dots, end = values_text.removeprefix("log:").partition("..")
    if dots:
        return _range(name, option, start, end, values_text.startswith("log:"))
    parts = values_text.split("|" if option.many else ",")
    try:
        values = tuple(option.parse(part) for part in parts)
    except OptionError as problem:
        problem.option = Flag("try", value=name)
        raise
    if len(set(values)) < len(values):
        raise OptionError(f"a value is given twice in {values_text}", option=Flag("try", value=name))
    return Dimension(name, option, values)


def _range(name: str, option: Option, start: str, end: str, logarithmic: bool) -> Dimension:
    if option.kind not in (int, float) or option.many:
        raise OptionError("only numbers have ranges; list the values", option=Flag("try", value=name))
    try:
        low, high = option.parse(start), option.parse(end)
    except OptionError as problem:
        problem.option = Flag("try", value=name)
        raise
    if not low < high or (logarithmic and low <= 0):
        raise OptionError(
            f"{start}..{end} is not a range from a lower to a higher {'positive ' * logarithmic}number",
            option=Flag("try", value=name),
        )
    return Dimension(name, option, low=float(low), high=float(high), logarithmic=logarithmic)


def find_option(name: str, methods: Sequence[str]) -> Option:
    """The declaration of the parameter `name`, such as `k1` or `klsa.z`; raises OptionError for others than of `methods`."""
    owner, dot, rest = name.partition(".")
    if dot and owner not in methods:
        raise OptionError("has no effect without ", Flag("rerank", value=owner), option=Flag("try", value=name))
    options = registry.method(owner).options if dot else FirstStageSettings.options
    key = (rest if dot else name).replace("-", "_")
    for option in options:
        if option.key == key:
            return option
    for option in registry.method(owner).fit_options if dot else ():
        if option.key == key and registry.method(owner).fitted_option is None:
            raise OptionError(
                f"{owner} is trained on judgements or clicks, which tune needs for itself", option=Flag("try", value=name)
            )
        if option.key == key:
            return option
    known = ", ".join(option.name for option in options)
    raise OptionError(
        f"no such parameter of {owner if dot else 'the first stage'}; known: {known}", option=Flag("try", value=name)
    )


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
