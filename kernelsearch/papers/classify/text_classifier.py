"""A text classifier of multi-scale kernels, and its saved form.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010), Section 4.1: an SVM on the levels' kernels, which are
added up, or weighted by BEM-MKL (Eq. 10) or SimpleMKL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import SVC, LinearSVC

from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.reading import parse_json
from kernelsearch.core.streams import raise_shortage
from kernelsearch.kernels.pyramid.text_pyramid import SCALES
from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.multiscale_kernel import MultiScaleKernel
from kernelsearch.papers.classify.simple_mkl import SimpleMKL

KIND, VERSION, TEXTS = "text classifier", 1, "texts.jsonl"


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(Settings):
    """Options of a text classifier."""

    owner: ClassVar[str] = ""

    kernel: str = option("js", "kernel between two texts at a level", choices=("js", "frobenius", "rbf"))
    weights: str = option(
        "sum", "weights of the levels: equal (sum), BEM-MKL (bem) or SimpleMKL (simple)", choices=("sum", "bem", "simple")
    )
    scales: tuple[float, ...] = option(SCALES, "scales of the levels; inf is the bag of words", low=0, unbounded=True)
    pyramid: str = option(
        "gaussian",
        "levels: the smoothed texts (gaussian), or differences of successive ones (laplacian), which kernel js can't compare",
        choices=("gaussian", "laplacian"),
    )
    columns: int = option(8, "length that texts are interpolated to", low=1, high=256)
    weighting: str = option("none", "weight of a word before smoothing", choices=("none", "idf"))
    eta: float = option(
        0.0, "Dirichlet smoothing η of texts before they are smoothed along positions and words", low=0, high=1e6
    )
    C: float = option(10.0, "penalty C of the SVM", low=1e-6, high=1e6, name="C")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pyramid == "laplacian" and (self.kernel == "js" or len(self.scales) < 2):
            raise OptionError(
                "needs two scales or more, and ",
                Flag("kernel", value="frobenius"),
                " or rbf",
                option=Flag("pyramid", value="laplacian"),
            )

    def pipeline(
        self, graph_texts: Sequence[str] = (), similarities: Sequence[tuple[str, str, float]] | None = None
    ) -> Pipeline:
        """An unfitted scikit-learn pipeline from texts to labels.

        `graph_texts` are further texts for the word graph, `similarities` make it instead of texts.
        """
        combine = "sum" if self.weights == "sum" else "stack"
        maker = MultiScaleKernel(
            kernel=self.kernel, pyramid=self.pyramid, scales=self.scales, columns=self.columns, weighting=self.weighting,
            combine=combine, graph_texts=list(graph_texts) or None, similarities=similarities, eta=self.eta,
        )  # fmt: skip
        learner = {"sum": [], "bem": [BemMKL()], "simple": [SimpleMKL(C=self.C)]}[self.weights]
        return make_pipeline(maker, *learner, SVC(kernel="precomputed", C=self.C))


@dataclass(frozen=True)
class LabelledTexts:
    """Training texts with their labels, and what the word graph is made from.

    These are the texts and further ones without labels (`graph_texts`), or `similarities`, (word, word, similarity), where
    they aren't None.
    """

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    graph_texts: tuple[str, ...] = ()
    similarities: tuple[tuple[str, str, float], ...] | None = None

    def fit(self, make: Callable[..., Pipeline]) -> Pipeline:
        """The model of `make`, such as `ClassifierSettings.pipeline`, fitted on the texts.

        Raises InputError where there are fewer than two labels.
        """
        if len(set(self.labels)) < 2:
            raise InputError(f"classify: the training texts have {len(set(self.labels))} label; two or more are needed")
        return make(self.graph_texts, self.similarities).fit(list(self.texts), np.array(self.labels))


def bag_of_words(graph_texts: Sequence[str] = (), similarities: Sequence[tuple[str, str, float]] | None = None) -> Pipeline:
    """A linear SVM on tf·idf, which a classifier should be better than.

    It has no graph of words: `graph_texts` and `similarities`, which `ClassifierSettings.pipeline` takes, are not used.
    """
    return make_pipeline(TfidfVectorizer(analyzer=_words), LinearSVC())


def _words(text: str) -> list[str]:
    """The words of a text in lower case; an empty one where there are none, which a vocabulary may not be made of."""
    return re.findall(r"\w+", text.lower()) or [""]


def cross_validate(
    data: LabelledTexts, make: Callable[..., Pipeline], folds: int, seed: int = 0, progress: Progress = silent
) -> NDArray[np.str_]:
    """The label that each text gets from a model trained without its fold, shape (texts,); folds have equal shares of labels.

    `data` are the texts, `make` makes a model, as `ClassifierSettings.pipeline` does, `seed` draws the `folds` folds,
    which are reported to `progress`. Raises InputError where a label has fewer texts than there are folds.
    """
    from sklearn.model_selection import StratifiedKFold

    labels = np.array(data.labels)
    names, counts = np.unique(labels, return_counts=True)
    if counts.min() < folds:
        raise InputError(
            f"{folds}, but label {str(names[counts.argmin()])!r} has only {counts.min()} texts", option=Flag("folds")
        )
    out = labels.copy()
    with progress("folds", total=folds, unit="fold") as bar:
        for learned, held_out in StratifiedKFold(folds, shuffle=True, random_state=seed).split(labels, labels):
            texts = tuple(data.texts[row] for row in learned)
            part = LabelledTexts(texts, tuple(labels[learned]), data.graph_texts, data.similarities)
            out[held_out] = part.fit(make).predict([data.texts[row] for row in held_out])
            bar.update()
    return out


def save(path: str | Path, data: LabelledTexts, settings: ClassifierSettings) -> None:
    """Saves the training texts and the settings; a model is fitted from them again when it is loaded, the same every time.

    So nothing has to be unpickled; kernels need the training texts anyway. `path` is the artefact's folder, `data` are the
    texts.
    """
    lines = [json.dumps({"text": text, "label": label}) for text, label in zip(data.texts, data.labels, strict=True)]
    lines += [json.dumps({"text": text}) for text in data.graph_texts]
    if data.similarities is not None:
        lines.append(json.dumps({"similarities": data.similarities}))
    values: dict[str, Any] = settings.to_dict()
    values["scales"] = [str(scale) for scale in settings.scales]

    def write_texts(folder: Path) -> None:
        (folder / TEXTS).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    artefacts.save(path, KIND, VERSION, parameters=values, fill=write_texts)


def load(path: str | Path) -> tuple[LabelledTexts, ClassifierSettings]:
    """The texts and settings that `save` has written to `path`; raises ArtefactError where they are missing or damaged."""
    meta = artefacts.read_meta(path, KIND, VERSION)
    try:
        records = [parse_json(line, str(path)) for line in (Path(path) / TEXTS).read_text(encoding="utf-8").splitlines()]
        labelled = [record for record in records if "label" in record]
        others = tuple(record["text"] for record in records if "label" not in record and "similarities" not in record)
        rows = next((record["similarities"] for record in records if "similarities" in record), None)
        similarities = None if rows is None else tuple((str(word), str(other), float(value)) for word, other, value in rows)
        settings = ClassifierSettings.of(meta["parameters"])
        texts, labels = (tuple(record[key] for record in labelled) for key in ("text", "label"))
        return LabelledTexts(texts, labels, others, similarities), settings
    except (InputError, ValueError, KeyError, TypeError, OSError) as problem:
        raise_shortage(problem)
        raise ArtefactError("damaged; train the classifier again", path=path) from None
