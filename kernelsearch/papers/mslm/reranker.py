"""`mslm-paper`: the ways of matching, scaling and weighting that Yang & Zha (CIKM 2010) describe beside those of `mslm`."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, Flag, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.learning.bem import uniform_weights
from kernelsearch.papers.mslm import MULTISCALE_PAPER
from kernelsearch.papers.mslm.matching import make_matcher
from kernelsearch.papers.mslm.settings import PaperFitSettings, PaperSettings
from kernelsearch.papers.mslm.sources import vectors_graph, wordnet_graph
from kernelsearch.rerankers.base import OpenedIndex, TrainingData
from kernelsearch.rerankers.mslm.graph import build_graph
from kernelsearch.rerankers.mslm.reranker import FORM, MultiScaleLM, level_scales


class PaperMultiScaleLM(MultiScaleLM):
    """`mslm` with the paper's options."""

    method = MULTISCALE_PAPER
    settings: PaperSettings

    def make_scales(self) -> tuple[Scale, ...]:
        """The levels that the options describe; raises OptionError where their numbers don't match each other or the mode."""
        settings = self.settings
        scales = level_scales(settings.scales, settings.semantic or settings.scales, self.name, settings.width)
        if settings.mode != "points":
            return scales
        scales = tuple(scale for scale in scales if scale.spatial < math.inf)
        spatial = [scale.spatial for scale in scales]
        if len(spatial) < 2 or spatial != sorted(set(spatial)):
            raise OptionError(
                "interest points need two or more finite scales in ascending order", option=Flag("scales", self.name)
            )
        return scales

    def make_matcher(self) -> Matcher:
        """How the levels are matched."""
        settings = self.settings
        return make_matcher(
            settings.mode, self.scales, divergence=settings.divergence, step=settings.step, columns=settings.columns
        )

    @property
    def limit(self) -> int:
        """The largest number of words per query that are told apart."""
        return self.settings.rows

    def matching_options(self) -> dict[str, Any]:
        """The options that level weights depend on, as JSON has them."""
        values = self.settings.to_dict()
        return {**super().matching_options(), **{key: values[key] for key in FORM}}

    def graph_folder(self) -> Path:
        """The folder of a graph that was trained for this method, otherwise that of `mslm`."""
        own = self.index.artefacts / self.name
        return own if not self.settings.model and own.exists() else super().graph_folder()

    def _load(self) -> tuple[SemanticGraph, NDArray[np.float64]]:
        graph, weights = super()._load()
        wanted, learned = self.settings.weights, self.artefact is not None and self.artefact.learned_for
        if wanted == "learned" and learned != self.matching_options():
            command = f"python -m kernelsearch.train {self.index.shards.flags} --rerank {self.name} --topics ... --qrels ..."
            reason = "learned for other matching options" if learned else "not learned (without judgements)"
            raise ArtefactError(f"level weights were {reason}; {command} learns them", path=self.graph_folder())
        return graph, uniform_weights(len(self.scales)) if wanted == "uniform" else weights

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: PaperFitSettings) -> Path:  # type: ignore[override]
        """As `MultiScaleLM.fit`, with a graph from any source."""
        return cls.fit_graph(index, data, settings, build_from_source, settings.hits)

    @cached_property
    def importance(self) -> NDArray[np.float64] | None:
        """The weight of each word of the index before smoothing, shape (words,); None: all alike."""
        return None if self.settings.weighting == "none" else super().importance

    def scaled_levels(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Level similarities of a query's candidates as they are weighted, shape (candidates, levels)."""
        return super().scaled_levels(levels) if self.settings.normalise == "z" else levels

    def deviations(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """What `scaled_levels` divides each level by, shape (levels,); 0 for a level that orders nothing."""
        return super().deviations(levels) if self.settings.normalise == "z" else np.ones(levels.shape[1])


def build_from_source(
    index: OpenedIndex, settings: PaperFitSettings, limit: MemoryLimit | None = None, engine: Engine | None = None
) -> SemanticGraph:
    """The graph of related words of `index` from the source that the training options `settings` name.

    `limit` and `engine` are those of `build_graph`. Raises OptionError where a source is missing.
    """
    kind, source = settings.graph, settings.source
    if kind == "cooccurrence":
        return build_graph(index, settings, limit, engine)
    if source is None:
        raise OptionError(
            Flag("graph", MULTISCALE_PAPER.name, value=kind),
            f" needs {'a file' if kind == 'vectors' else 'a folder'}",
            option=Flag("source", MULTISCALE_PAPER.name),
        )
    make = vectors_graph if kind == "vectors" else wordnet_graph
    return make(
        Path(source), index.forward.term_ids, len(index.forward.terms), index.lucene.analyze, neighbours=settings.neighbours
    )
