"""What our PyTerrier transformers share: an index, parameters by name, equality and pickling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyterrier as pt

from kernelsearch.core.options import Option

if TYPE_CHECKING:
    from kernelsearch.api.index import Index
    from kernelsearch.integrations.pyterrier_text import Text


class IndexTransformer(pt.Transformer):
    """A transformer over an index. Two are equal where class, index and all parameters are.

    Attributes: `index`, the opened index; `options`, the options that were set.
    """

    index: Index
    options: dict[str, Any]
    #: Attributes that are parameters besides the options.
    attributes_that_vary: ClassVar[tuple[str, ...]] = ()

    def declared_options(self) -> Sequence[Option]:
        """The declarations of the options that the transformer takes."""
        return ()

    def check(self) -> None:
        """Makes what depends on the parameters anew; raises OptionError for values that they don't take."""

    def parameters(self) -> dict[str, Any]:
        """The value of every parameter, by name."""
        values = {name: getattr(self, name) for name in self.attributes_that_vary}
        return values | {option.key: self.options.get(option.key, option.default) for option in self.declared_options()}

    def get_parameter(self, name: str) -> Any:
        """The value of a parameter, such as `k1` or `z`; raises ValueError for an unknown name."""
        return self._known(name)[name]

    def set_parameter(self, name: str, value: Any) -> None:
        """Changes a parameter, as `pt.GridScan` does.

        Raises ValueError for an unknown name, OptionError for a value that the parameter doesn't take.
        """
        before = self._known(name)[name], dict(self.options)
        try:
            self._set(name, value)
            self.check()
        except Exception:
            if name in self.attributes_that_vary:
                setattr(self, name, before[0])
            self.options = before[1]
            self.check()
            raise

    def _known(self, name: str) -> dict[str, Any]:
        values = self.parameters()
        if name not in values:
            raise ValueError(f"{self!r} has no parameter {name!r}; known: {', '.join(values)}")
        return values

    def _set(self, name: str, value: Any) -> None:
        if name in self.attributes_that_vary:
            setattr(self, name, value)
        else:
            self.options = {**self.options, name: value}

    def same_index(self, other: IndexTransformer) -> bool:
        """Whether this transformer and `other` use the same state of the same index, opened in the same way."""
        return self.index is other.index or _identity(self.index) == _identity(other.index)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other) or not isinstance(other, IndexTransformer):
            return NotImplemented
        return self.parameters() == other.parameters() and self.same_index(other)

    def __hash__(self) -> int:
        # Without the parameters, which may change while the transformer is a key.
        return hash((type(self).__name__, self.index.fingerprint))

    def text_loader(self, fields: Sequence[str] | str | Literal["*"] = "*", *, verbose: bool = False) -> Text:
        """The transformer that adds stored texts; `pt.text.get_text(retriever, "text")` calls this.

        `fields` and `verbose` are those of `Text`.
        """
        from kernelsearch.integrations.pyterrier_text import Text

        return Text(self.index, fields, verbose=verbose)


def format_options(options: dict[str, Any]) -> str:
    """The `options` as they follow the other arguments of a constructor."""
    return "".join(f", {name}={value!r}" for name, value in options.items())


def _identity(index: Index) -> tuple[Any, ...]:
    folders = tuple(path.resolve() for path in index.shards.folders)
    return folders, index.fingerprint, index.language, index.vector_settings.absolute()
