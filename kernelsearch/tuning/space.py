"""What to try: declared parameters of the first stage and of rerankers, as a grid or as random draws."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option
from kernelsearch.lucene.first_stage import FirstStageSettings
from kernelsearch.rerankers import registry

#: One point of the space, {name: value}: `k1` for the first stage, `klsa.z` for a method.
Setting = dict[str, Any]


@dataclass(frozen=True)
class Dimension:
    """One parameter and its values, or its range."""

    name: str
    option: Option
    values: tuple[Any, ...] = ()
    low: float = 0.0
    high: float = 0.0
    logarithmic: bool = False

    @property
    def is_range(self) -> bool:
        return not self.values

    def draw(self, generator: np.random.Generator) -> Any:
        """A random value: one of the list, or uniform in the range (or in its logarithm)."""
        if not self.is_range:
            return self.values[generator.integers(len(self.values))]
        if self.option.kind is int and not self.logarithmic:
            return int(generator.integers(int(self.low), int(self.high) + 1))
        if self.logarithmic:
            value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = generator.uniform(self.low, self.high)
        # Four digits are enough to tell settings apart, and can be read and typed.
        return round(value) if self.option.kind is int else float(f"{value:.4g}")


def parse_dimension(text: str, methods: Sequence[str]) -> Dimension:
    """`NAME=V1,V2,...`, `NAME=LOW..HIGH` or `NAME=log:LOW..HIGH`; lists within values are told apart by `|`."""
    name, sign, given = text.partition("=")
    if not sign or not given:
        raise OptionError(f"--try: {text!r} is not NAME=VALUES, such as klsa.z=1,5,10 or b=0.1..0.9")
    option = find_option(name, methods)
    start, dots, end = given.removeprefix("log:").partition("..")
    if dots:
        return _range(name, option, start, end, given.startswith("log:"))
    parts = given.split("|" if option.many else ",")
    try:
        values = tuple(option.parse(part) for part in parts)
    except OptionError as problem:
        raise OptionError(f"--try {name}: {str(problem).partition(': ')[2]}") from None
    if len(set(values)) < len(values):
        raise OptionError(f"--try {name}: a value stands twice in {given}")
    return Dimension(name, option, values)


def _range(name: str, option: Option, start: str, end: str, logarithmic: bool) -> Dimension:
    if option.kind not in (int, float) or option.many:
        raise OptionError(f"--try {name}: only numbers have ranges; list the values")
    try:
        low, high = option.parse(start), option.parse(end)
    except OptionError as problem:
        raise OptionError(f"--try {name}: {str(problem).partition(': ')[2]}") from None
    if not low < high or (logarithmic and low <= 0):
        raise OptionError(
            f"--try {name}: {start}..{end} is not a range from a lower to a higher {'positive ' * logarithmic}number"
        )
    return Dimension(name, option, low=float(low), high=float(high), logarithmic=logarithmic)


def find_option(name: str, methods: Sequence[str]) -> Option:
    """The declaration of `k1` or `klsa.z`; a method must be part of the pipeline."""
    owner, dot, rest = name.partition(".")
    if dot and owner not in methods:
        raise OptionError(f"--try {name}: has no effect without --rerank {owner}")
    options = registry.method(owner).options if dot else FirstStageSettings.options
    key = (rest if dot else name).replace("-", "_")
    for option in options:
        if option.key == key:
            return option
    for option in registry.method(owner).fit_options if dot else ():
        if option.key == key and registry.method(owner).fitted_option is None:
            raise OptionError(f"--try {name}: {owner} is trained on judgements or clicks, which tune needs for itself")
        if option.key == key:
            return option
    known = ", ".join(option.name for option in options)
    raise OptionError(f"--try {name}: no such parameter of {owner if dot else 'the first stage'}; known: {known}")


def grid(dimensions: Sequence[Dimension]) -> Iterator[Setting]:
    """All combinations; the last dimension changes fastest."""
    for one in dimensions:
        if one.is_range:
            raise OptionError(f"--try {one.name}: a range has no grid; list its values, or draw from it with --samples N")
    for values in itertools.product(*(one.values for one in dimensions)):
        yield dict(zip((one.name for one in dimensions), values, strict=True))


def draws(dimensions: Sequence[Dimension], count: int, seed: int) -> Iterator[Setting]:
    """`count` different random settings, or all there are."""
    size = math.inf if any(one.is_range for one in dimensions) else math.prod(len(one.values) for one in dimensions)
    if size <= count:
        yield from grid(dimensions)
        return
    generator = np.random.default_rng(seed)
    seen: set[str] = set()
    misses = 0
    while len(seen) < count and misses < 1000 * count:  # a narrow range of whole numbers may not hold so many
        setting = {one.name: one.draw(generator) for one in dimensions}
        if key(setting) in seen:
            misses += 1
            continue
        seen.add(key(setting))
        yield setting


def key(setting: Setting) -> str:
    """A setting as text that is the same whenever the setting is."""
    return json.dumps(setting, sort_keys=True, ensure_ascii=False, default=list)


def label(setting: Setting) -> str:
    """A setting for people."""
    return " ".join(f"{name}={_shown(value)}" for name, value in setting.items()) or "as given"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        "|".join(map(str, value))
        if isinstance(value, tuple | list)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def fit_part(method: str, part: dict[str, Any]) -> dict[str, Any]:
    """What training takes of a method's part of a setting."""
    known = {option.key for option in registry.method(method).options}
    return {name: value for name, value in part.items() if name not in known}


def split(setting: Setting, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The first stage's part, and each method's part, by Python names."""
    first = {name.replace("-", "_"): value for name, value in setting.items() if "." not in name}
    parts: dict[str, dict[str, Any]] = {name: {} for name in names}
    for name, value in setting.items():
        owner, dot, rest = name.partition(".")
        if dot:
            parts[owner][rest.replace("-", "_")] = value
    return first, parts
