"""What a feature is: a value that is parsed from its name, such as `bm25:k1=2,b=0.75,field=title` or `klsa:z=10`.

A recipe is a list of names, is saved with a model and means the same on every index. What a name may be:

- `first`: the first stage's score; `bm25`, `vsm`, `dirichlet`, `jm`, `cosine`, `linear`: a kernel between query and documents,
  on any `field`
- `rm3`, `rocchio`: BM25 of the query as Anserini's feedback expands it
- `rm`: BM25 of the query expanded by a relevance model whose documents are weighted by their posterior
- `top`: the mean document kernel (cosine) to the first stage's best `docs` documents
- `posterior`: the probability of the first stage's best documents, which is high for one that scores far above the others
- `parts`: BM25 that finds the words of a query inside identifiers of source code
- `votes`: documents that were relevant to similar training queries
- `dense:NAME`: the inner product with the vectors of that name; `dense-rm:NAME`: with the posterior mean of the nearest ones
- `hybrid:NAME/FEATURE`: a feature of feedback whose documents are the best by first stage and vectors NAME together
- `read:MATCH/FEATURE`: a feature of feedback whose documents are the first stage's best in the order of another feature
- `run:FILE`: the scores of a run file; `run:NAME` with --fusion.runs NAME=FILE
- any reranker with its options: `klsa:z=10`, `mslm:mix=1`, `pert:alpha=0.5`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Settings
from kernelsearch.kernels.registry import plugins as kernel_plugins
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.fusion.features.base import Feature, FeatureContext, FieldSettings
from kernelsearch.rerankers.fusion.features.evidence import DenseFeature, DenseRelevanceModel, RunFeature
from kernelsearch.rerankers.fusion.features.feedback import Posterior, RelevanceModel, RM3Feature, RocchioFeature, Top
from kernelsearch.rerankers.fusion.features.identifiers import Parts
from kernelsearch.rerankers.fusion.features.reordered import HybridFeature, ReadFeature
from kernelsearch.rerankers.fusion.features.scores import (
    BM25FeatureSettings,
    DirichletFeatureSettings,
    First,
    JelinekMercerFeatureSettings,
    KernelFeature,
    MethodFeature,
    Votes,
)

#: Features that are kernels between query and documents, with their parameters.
KERNEL_SETTINGS: dict[str, type[FieldSettings]] = {
    "bm25": BM25FeatureSettings,
    "dirichlet": DirichletFeatureSettings,
    "jm": JelinekMercerFeatureSettings,
    "vsm": FieldSettings,
    "linear": FieldSettings,
    "cosine": FieldSettings,
}

#: Features that are neither kernels nor rerankers.
OTHER_KINDS: dict[str, type[Feature[Any]]] = {
    "first": First,
    "rm": RelevanceModel,
    "rm3": RM3Feature,
    "rocchio": RocchioFeature,
    "posterior": Posterior,
    "top": Top,
    "votes": Votes,
    "dense": DenseFeature,
    "dense-rm": DenseRelevanceModel,
    "hybrid": HybridFeature,
    "read": ReadFeature,
    "run": RunFeature,
    "parts": Parts,
}

#: What stands before the slash of the features that are built on another one.
BUILT_ON = {"hybrid": "NAME/FEATURE, as in hybrid:minilm/rm", "read": "MATCH/FEATURE, as in read:mslm/rm"}

#: The options of recipes.
FEATURES, SOURCES = Flag("features", "fusion"), Flag("sources", "fusion")


@dataclass(frozen=True)
class FeatureSpec:
    """A feature as a value; its string is its name in recipes and saved models.

    `kind` is the kind of feature, `parameters` what its name gives it, `settings` all its parameters, checked. A feature that
    is built on others has `inner`, the feature of feedback, and `match` if one orders the documents (kind `read`).
    """

    kind: str
    parameters: str
    settings: Settings
    inner: FeatureSpec | None = None
    match: FeatureSpec | None = None

    def __str__(self) -> str:
        return f"{self.kind}:{self.parameters}" if self.parameters else self.kind

    @property
    def innermost(self) -> FeatureSpec:
        """The feature that this one is built on, or itself."""
        return self.inner.innermost if self.inner else self

    def build(self, context: FeatureContext) -> Feature[Any]:
        """The feature, ready for the index of `context`."""
        if self.inner is not None:
            inner = self.inner.build(context)
            if self.match is None:
                assert isinstance(self.settings, HybridFeature.settings_type)
                return HybridFeature(self.settings, context, inner)
            return ReadFeature(self.settings, context, inner, str(self.match), self.match.shared(context))
        if self.kind in OTHER_KINDS:
            return OTHER_KINDS[self.kind](self.settings, context)
        if isinstance(self.settings, FieldSettings):
            return KernelFeature(self.kind, self.settings, context)
        return MethodFeature(registry.method(self.kind), self.settings, context)

    def shared(self, context: FeatureContext) -> Feature[Any]:
        """The feature of `context`, built where it is missing."""
        feature = context.shared.get(str(self)) or self.build(context)
        context.shared[str(self)] = feature
        return feature


def known_features() -> list[str]:
    """The names that a recipe may use, those of installed plugins included."""
    methods = [name for name, method in registry.methods().items() if not method.fuses]
    return list(dict.fromkeys([*OTHER_KINDS, *KERNEL_SETTINGS, *kernel_plugins(), *methods]))


def parse(text: str, option: Flag = FEATURES) -> FeatureSpec:
    """The feature of the name `text`, KIND or KIND:NAME=VALUE,...; raises OptionError for unknown ones."""
    kind, _, tail = text.strip().partition(":")
    if kind in BUILT_ON:
        outer, _, inner = tail.partition("/")
        if not outer or not inner:
            raise OptionError(f"feature {kind}: {tail or None!r} should read {BUILT_ON[kind]}")
        if kind == "read":
            return FeatureSpec(kind, tail, Settings(), parse(inner, option), parse(outer, option))
        return FeatureSpec(kind, tail, HybridFeature.settings_type.of({"vectors": outer}), parse(inner, option))
    settings = _settings_type(kind, option)
    positional = OTHER_KINDS[kind].positional if kind in OTHER_KINDS else None
    if positional is not None and tail and not tail.startswith(f"{positional}="):
        return FeatureSpec(kind, tail, settings.of({positional: tail}))
    parameters = {}
    for part in filter(None, tail.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{text!r}: {part!r} should read NAME=VALUE", option=option)
        parameters[key.strip()] = value.strip()
    return FeatureSpec(kind, tail, settings.of(parameters))


def _settings_type(kind: str, option: Flag) -> type[Settings]:
    if kind in OTHER_KINDS:
        return OTHER_KINDS[kind].settings_type
    if kind in KERNEL_SETTINGS:
        return KERNEL_SETTINGS[kind]
    if kind in kernel_plugins():
        return FieldSettings
    method = registry.methods().get(kind)
    if method is None or method.fuses:
        raise OptionError(f"unknown feature {kind!r}; known: {', '.join(known_features())}", option=option)
    return method.settings


def parse_recipe(text: str, option: Flag = FEATURES) -> tuple[str, ...]:
    """The names of the recipe `text`, separated by spaces or semicolons, without repetitions.

    Raises OptionError, which names `option`, for an empty recipe and for a feature that doesn't exist.
    """
    names = tuple(dict.fromkeys(text.replace(";", " ").split()))
    if not names:
        raise OptionError("names no feature", option=option)
    for name in names:
        parse(name, option)
    return names


def of_kind(kind: str, names: Sequence[str], option: Flag = FEATURES) -> tuple[str, ...]:
    """Those of the features `names` that are of `kind`; raises OptionError, which names `option`, for unknown ones."""
    return tuple(name for name in names if parse(name, option).kind == kind)
