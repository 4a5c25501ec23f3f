"""The reranking methods: how one is declared, and all of them by name.

The methods of the product are the packages of this folder. `kernelsearch.papers` and external packages declare
entry points in the group `kernelsearch.rerankers`:

    [project.entry-points."kernelsearch.rerankers"]
    mine = "my_package:METHOD"

whose value is a `Method` or a sequence of them. Nothing else is needed: the method appears in `--rerank`, in the service, in
PyTerrier and in the recipes of fusion.
"""

from __future__ import annotations

import logging
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsearch import rerankers
from kernelsearch.core.errors import Flag, OptionError, nearest, quote
from kernelsearch.core.options import Option, Settings, find_option, unknown_option
from kernelsearch.core.plugins import PluginError, check_methods, register, source_of

if TYPE_CHECKING:
    from kernelsearch.rerankers.artefact_kinds import ArtefactKind
    from kernelsearch.rerankers.base import OpenedIndex, Reranker, TrainingData

#: The group of entry points that other packages declare methods in.
GROUP = "kernelsearch.rerankers"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Method:
    """The declaration of a method. Its code is imported when it is used, not when it is declared.

    Parameters
    ----------
    name : the method's name in `--rerank` and the prefix of its options (`--NAME.option`)
    summary : one line for `--help`, the service and the docs
    settings : the options of search
    reranker : the class of the reranker, as "module:class"
    fit_settings : the options of train; None for a method whose training has none
    fitted_option : the option of search that takes the folder which `fit` saves, for methods that can be fitted to the index
        alone
    retrieves : whether the method may add documents to the candidates
    fuses : whether it is a method over other methods, which can't be a feature of a fusion
    meaning : what its scores mean as a feature of a fusion, in explanations; default: `summary`
    feedback : whether it takes the best documents of the list for relevant ones
    moved : {name of an option that the method had: where it is now}, for who still names it
    artefacts : the kinds of artefacts that the method saves beside an index, each an `ArtefactKind` as "module:name"
    learns_from : what `fit` takes besides the index, of "topics", "qrels" and "clicks"; None: not declared, so train refuses
        nothing

    `options` and `fit_options` are the declared options of `settings` and `fit_settings`, in order.
    """

    name: str
    summary: str
    settings: type[Settings]
    reranker: str
    fit_settings: type[Settings] | None = None
    fitted_option: str | None = None
    retrieves: bool = False
    fuses: bool = False
    artefacts: tuple[str, ...] = ()
    learns_from: tuple[str, ...] | None = None
    meaning: str = ""
    feedback: bool = False
    moved: Mapping[str, str] = field(default_factory=dict, compare=False)
    options: tuple[Option, ...] = field(init=False, repr=False, compare=False)
    fit_options: tuple[Option, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", self.settings.options)
        object.__setattr__(self, "fit_options", self.fit_settings.options if self.fit_settings else ())

    def load(self) -> type[Reranker[Any]]:
        """Imports the reranker's class. Raises PluginError for that of a plugin which can't be imported or lacks a method."""
        source = source_of(self.reranker.partition(":")[0])
        if source is None:
            reranker_class: type[Reranker[Any]] = _import(self.reranker)
            return reranker_class
        from kernelsearch.rerankers.base import Reranker as Base

        try:
            reranker_class = _import(self.reranker)
        except Exception as problem:  # another package's mistake, of whatever kind, is one line
            reason = f"{self.reranker} cannot be loaded ({type(problem).__name__}: {problem})"
            raise PluginError(source, reason) from problem
        if not (isinstance(reranker_class, type) and issubclass(reranker_class, Base)):
            raise PluginError(source, f"{self.reranker} is not a subclass of kernelsearch.rerankers.base.Reranker")
        if getattr(reranker_class, "method", None) is None:
            raise PluginError(source, f"{reranker_class.__name__} has no attribute method, its declaration")
        check_methods(reranker_class, Base, source)
        return reranker_class

    def load_artefact_kinds(self) -> list[ArtefactKind]:
        """Imports the kinds of artefacts that the method saves."""
        return [_import(reference) for reference in self.artefacts]

    def make(self, index: OpenedIndex, **options: Any) -> Reranker[Any]:
        """The reranker for an opened index, with options of search by name."""
        return self.load()(index, **options)

    def fit(self, index: OpenedIndex, data: TrainingData, **options: Any) -> Path:
        """Fits what the method needs on `index` and `data`, with options of train by name; returns the folder saved to.

        Raises OptionError for data that the method doesn't learn from.
        """
        for name in ("topics", "qrels", "clicks") if self.learns_from is not None else ():
            if getattr(data, name) and name not in (self.learns_from or ()):
                raise OptionError(
                    "has no effect on ", Flag("rerank", value=self.name), ", which doesn't learn from it", option=Flag(name)
                )
        return self.load().fit(index, data, self.read_fit_settings(options))

    def find_option(self, name: str, *, fit: bool = False) -> Option:
        """The option `name` of search, or of train with `fit`; raises OptionError for one that is unknown or moved."""
        options, others = (self.fit_options, self.options) if fit else (self.options, self.fit_options)
        found = find_option(name, options)
        if found is not None:
            return found
        declared = name.replace("_", "-")
        if declared in self.moved:
            raise OptionError(self.moved[declared], option=Flag(declared, self.name))
        if find_option(name, others) is not None:
            raise OptionError(f"an option of {'search' if fit else 'train'}", option=Flag(declared, self.name))
        raise unknown_option(name, options, self.name)

    def read_fit_settings(self, options: Mapping[str, Any]) -> Settings:
        """The options of train as checked settings; raises OptionError for unknown names and values out of bounds."""
        found = [(self.find_option(name, fit=True), value) for name, value in options.items()]
        checked = {option.key: option.parse(value, self.name) for option, value in found}
        return self.fit_settings.of(checked) if self.fit_settings is not None else Settings()


@cache
def methods() -> dict[str, Method]:
    """All methods by name: ours in alphabetical order of their packages, then those of other packages.

    A plugin that cannot be loaded, declares something else or takes a name that exists is left out with a warning.
    """
    known = {method.name: method for method in _bundled()}
    for method, source in _plugins():
        if method.name in known:
            logger.warning("%s: the method %r exists already and is not replaced", source, method.name)
        else:
            known[method.name] = method
    return known


def names() -> list[str]:
    """The names of all methods."""
    return list(methods())


@cache
def paper_names() -> frozenset[str]:
    """The names of the methods of `kernelsearch.papers`, which help and lists of methods show apart."""
    return frozenset(name for name, declared in methods().items() if declared.reranker.startswith("kernelsearch.papers."))


def method(name: str) -> Method:
    """The method of a name; raises OptionError where there is none."""
    known = methods()
    if name not in known:
        raise OptionError(unknown_method(name), option=Flag("rerank"))
    return known[name]


def unknown_method(name: str) -> str:
    """The reason why a `name` is refused that no method has."""
    return f"{quote(name)} is not one of {', '.join(methods())}{nearest(name, methods())}"


def artefact_kinds() -> list[ArtefactKind]:
    """The kinds of artefacts of all methods; those of a plugin that cannot be imported are left out with a warning."""
    kinds = []
    for declared in methods().values():
        try:
            kinds += declared.load_artefact_kinds()
        except (ImportError, AttributeError) as problem:
            logger.warning(
                "%s: its artefacts are unknown (%s: %s)", Flag("rerank", value=declared.name), type(problem).__name__, problem
            )
    return kinds


def _import(reference: str) -> Any:
    """What "module:name" names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def _bundled() -> Iterator[Method]:
    for module in pkgutil.iter_modules(rerankers.__path__):
        if module.ispkg:
            yield from import_module(f"{rerankers.__name__}.{module.name}").METHODS


def _plugins() -> Iterator[tuple[Method, str]]:
    """The methods of other packages, each with a description of the entry point for messages."""
    for entry in entry_points(group=GROUP):
        source = register(entry)
        for declared in _load(entry, source):
            if isinstance(declared, Method):
                yield declared, source
            else:
                logger.warning("%s: a Method was expected, not %s", source, type(declared).__name__)


def _load(entry: EntryPoint, source: str) -> Iterable[object]:
    """What an entry point declares; nothing, with a warning, where it cannot be loaded."""
    try:
        declared = entry.load()
    except Exception as problem:  # another package's mistake, of whatever kind, must not stop the command
        logger.warning("%s: cannot be loaded (%s: %s)", source, type(problem).__name__, problem)
        return ()
    return declared if isinstance(declared, list | tuple) else (declared,)
