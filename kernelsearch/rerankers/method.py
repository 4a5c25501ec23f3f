"""The declaration of a reranking method: its name, what it does, its options, and where its code is."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option, Settings

if TYPE_CHECKING:
    from kernelsearch.rerankers.base import FittedFeatures, OpenedIndex, Reranker, TrainingData


@dataclass(frozen=True)
class Method:
    """A method as `--rerank` knows it. Its code is imported when it is used, not when it is declared.

    `settings` and `fit_settings` declare the options of search and train, `reranker` is "module:class". `fitted_option`
    names the option that takes the folder of what `fit` saves, for methods that can be fitted to the index alone.
    `retrieves` says that the method adds documents to the candidates. `fuses` marks a method over other methods, which
    can't be a feature of a fusion.
    """

    name: str
    summary: str
    settings: type[Settings]
    reranker: str
    fit_settings: type[Settings] | None = None
    fitted_option: str | None = None
    retrieves: bool = False
    fuses: bool = False

    @property
    def options(self) -> tuple[Option, ...]:
        """The options of search."""
        return self.settings.options()

    @property
    def fit_options(self) -> tuple[Option, ...]:
        """The options of train."""
        return self.fit_settings.options() if self.fit_settings else ()

    def load(self) -> type[Reranker[Any]]:
        """The reranker's class."""
        module, _, name = self.reranker.partition(":")
        found: type[Reranker[Any]] = getattr(import_module(module), name)
        return found

    def make(self, index: OpenedIndex, **options: Any) -> Reranker[Any]:
        """The reranker for an index, with options by name."""
        return self.load()(index, **options)

    def fit(self, index: OpenedIndex, data: TrainingData, **options: Any) -> Path:
        """Fits what the method needs and returns the folder where it was saved."""
        return self.load().fit(index, data, self.read_fit_settings(options))

    def fit_features(self, data: TrainingData, **options: Any) -> FittedFeatures:
        """Learns from a file of features and saves the model."""
        return self.load().fit_features(data, self.read_fit_settings(options))

    def read_fit_settings(self, options: dict[str, Any]) -> Settings:
        """The training options, checked."""
        if self.fit_settings is not None:
            return self.fit_settings.of(options)
        if options:
            raise OptionError(f"{self.name}: unknown option {next(iter(options))!r}; training takes none")
        return Settings()
