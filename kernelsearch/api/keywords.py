"""Python keywords as pairs: `rerank="klsa", k1=1.2, klsa_dims=300` is ("", "k1") with 1.2 and ("klsa", "dims") with 300."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernelsearch.api.spec import PipelineSpec, check
from kernelsearch.core.errors import Flag, OptionError, quote
from kernelsearch.core.options import find_option
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

#: One method, several in their order, or methods with their options: "klsa", ["pert", "klsa"], {"klsa": {"dims": 300}}; or a
#: pipeline that is checked already.
Rerank = str | Sequence[str] | Mapping[str, Mapping[str, Any]] | PipelineSpec | None


def read_keywords(rerank: Rerank, options: Mapping[str, Any]) -> PipelineSpec:
    """The pipeline that `rerank` and keyword options describe; raises OptionError as `spec.check` does."""
    if isinstance(rerank, PipelineSpec):
        return rerank.change(rerank.names, check(rerank.names, pairs(options))) if options else rerank
    if rerank is None:
        return PipelineSpec.of([], pairs(options))
    if isinstance(rerank, str):
        return PipelineSpec.of([rerank], pairs(options))
    if not isinstance(rerank, Sequence | Mapping) or not all(isinstance(name, str) for name in rerank):
        raise OptionError(
            f"the name of a method, a list of names, or {{name: options}} was expected, not {quote(rerank)}; methods: "
            f"{', '.join(registry.names())}",
            option=Flag("rerank"),
        )
    own: list[tuple[tuple[str, str], Any]] = []
    for method, values in rerank.items() if isinstance(rerank, Mapping) else ():
        if not isinstance(values, Mapping):
            raise OptionError(f"options of {method} by name were expected, not {quote(values)}", option=Flag("rerank"))
        own += [((method, name), value) for name, value in values.items()]
    return PipelineSpec.of(list(rerank), [*own, *pairs(options)])


def pairs(options: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Any]]:
    """The keyword `options` of the first stage and of methods as pairs ((owner, name), value)."""
    yield from ((split(name), value) for name, value in options.items())


def split(name: str) -> tuple[str, str]:
    """The owner and the option's name of a keyword: `klsa_paper_z`, or `klsa-paper.z`, is z of the method klsa-paper."""
    owner, dot, rest = name.partition(".")
    if dot:
        return owner, rest
    if find_option(name, FirstStageSettings.options) is not None:
        return "", name
    # The longest name: that of another method may begin like it.
    for owner in sorted(registry.names(), key=len, reverse=True):
        prefix = f"{owner.replace('-', '_')}_"
        if name.startswith(prefix):
            return owner, name[len(prefix) :]
    return "", name
