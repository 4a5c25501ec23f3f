"""The description of a pipeline, read and checked here alone, from pairs of names and values.

Adapters turn keywords of Python, flags, config files, query strings, JSON bodies and arguments of MCP tools into pairs
((owner, name), value). The owner is a method, or "" for the first stage; a name has hyphens or underscores; a value is a
number, a text or a list, as the adapter found it. An error carries the option and the reason, the same for all adapters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Option, Settings, find_option, unknown_option
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

if TYPE_CHECKING:
    from kernelsearch.api.index_files import IndexFiles
    from kernelsearch.api.pipeline import Pipeline

#: Options with their values as an adapter makes them: ((owner, name), value).
Pairs = Iterable[tuple[tuple[str, str], Any]]
#: Checked values of options by owner and name, those that are given.
Values = Mapping[str, Mapping[str, Any]]


def check(methods: Sequence[str], pairs: Pairs, *, for_request: bool = False, others: Iterable[Option] = ()) -> Values:
    """The checked values of `pairs`, options of the first stage and of the named `methods`; the last one of a name counts.

    Parameters
    ----------
    methods : names of methods
    pairs : ((owner, name), value) of options
    for_request : whether a request to a service sets them, which has bounds of its own and must not name files
    others : what else can be named where the pairs come from; for suggestions

    Raises OptionError for a method that is unknown or named twice, for an option that is unknown, moved, or of a method that is
    not used, and for a value that its option refuses.
    """
    for name in methods:
        registry.method(name)
        if methods.count(name) > 1:
            raise OptionError(f"given {methods.count(name)} times; a method reranks once", option=Flag("rerank", value=name))
    values: dict[str, dict[str, Any]] = {}
    for (owner, name), value in pairs:
        option = _find(owner, name, methods, others, for_request)
        parse = option.parse_request if for_request else option.parse
        values.setdefault(owner, {})[option.key] = parse(value, owner)
    return values


def _find(owner: str, name: str, methods: Sequence[str], others: Iterable[Option], for_request: bool) -> Option:
    """The declaration of an option; raises OptionError."""
    if owner:
        if owner not in registry.names():
            raise OptionError(registry.unknown_method(owner), option=Flag(name, owner))
        option = registry.method(owner).find_option(name)
        if owner not in methods:
            raise OptionError("has no effect without ", Flag("rerank", value=owner), option=Flag(option.name, owner))
        return option
    found = find_option(name, FirstStageSettings.options)
    if found is None:
        for method in methods:
            if (meant := find_option(name, registry.method(method).options)) is not None:
                raise OptionError("unknown option; did you mean ", Flag(meant.name, method), "?", option=Flag(meant.name))
        known = [option for option in FirstStageSettings.options if option.requests or not for_request]
        raise unknown_option(name, [*others, *known])
    return found


@dataclass(frozen=True)
class PipelineSpec:
    """A pipeline as checked values, before any index is opened: what an index keeps its pipelines by.

    `first` are the settings of the first stage, `methods` the names of the methods with their settings, in the order in which
    they rerank. `first_stage` is what `first` describes, unless a first stage is given that no options describe. Raises
    InputError for options of the first stage that exclude each other.
    """

    first: FirstStageSettings = field(default_factory=FirstStageSettings)
    methods: tuple[tuple[str, Settings], ...] = ()
    first_stage: FirstStage = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        if self.first_stage is None:
            object.__setattr__(self, "first_stage", FirstStage.from_settings(self.first))

    @classmethod
    def of(cls, methods: Sequence[str], pairs: Pairs = (), *, others: Iterable[Option] = ()) -> PipelineSpec:
        """The pipeline of the named `methods` with the options `pairs`; parameters and errors are those of `check`."""
        return _DEFAULT.change(methods, check(methods, pairs, others=others))

    def change(self, methods: Sequence[str], values: Values) -> PipelineSpec:
        """The pipeline of the named `methods` with the settings that they have here, and the checked `values`."""
        own = dict(self.methods)
        made = [(name, (own.get(name) or registry.method(name).settings()).change(values.get(name, {}))) for name in methods]
        return PipelineSpec(self.first.change(values.get("", {})), tuple(made))

    @property
    def names(self) -> list[str]:
        """The names of the methods, in order."""
        return [name for name, _ in self.methods]

    def options(self) -> list[tuple[str, dict[str, Any]]]:
        """The name of each method with all its options by name."""
        return [(name, settings.to_dict()) for name, settings in self.methods]

    def open(self, index: IndexFiles) -> Pipeline:
        """The pipeline over the opened `index`, which keeps it ready."""
        return index.open_pipeline(self)


#: The first stage with its defaults, which most descriptions begin with.
_DEFAULT = PipelineSpec()
