"""What each method gains on a collection that its settings were not chosen on: the tables of docs/which-method.md.

    python -m tools.reproduce.left_out [--collections FOLDER] [--scratch FOLDER] [--page]

Every method is measured under the settings of a small grid around its defaults; `auto` under those of `tools.reproduce.auto`.
On each collection it takes the setting with the largest mean gain in MAP over BM25 on the other ones. The languages of xquadr
have the same questions and texts: they are left out together, and count as one in every mean. Gains are saved in left_out.json;
--page writes the tables from them alone. Finished settings are kept in the scratch folder.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import kernelsearch
from kernelsearch.tuning.space import label
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option, judged_topics
from tools.reproduce import auto
from tools.reproduce.auto_tables import measured
from tools.reproduce.pages import markdown_table, replace_between

COLLECTIONS = (
    "cran", "cacm", "cisi", "npl", "nfcorpus", "scifact", "zerozero", "xquadr_en", "xquadr_es", "xquadr_ru", "xquadr_ar",
)  # fmt: skip
#: Options of the pipeline, and the values that are tried.
GRIDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "RM3": ({"rm3": True}, {"rm3_weight": "0.3,0.5,0.7,0.9", "rm3_docs": "5,10,20"}),
    "Rocchio": ({"rocchio": True}, {"rocchio_beta": "0.25,0.5,0.75,1", "rocchio_docs": "5,10,20"}),
    "pert": ({"rerank": "pert"}, {"pert.alpha": "0.4,0.5,0.6", "pert.docs": "10,20", "pert.kappa": "0.01,0.1"}),
    "mslm": ({"rerank": "mslm"}, {"mslm.scales": "4|8", "mslm.semantic": "0|0.7", "mslm.mix": "0.3,0.5,0.7"}),
    "klsa": ({"rerank": "klsa"}, {"klsa.z": "auto,1,10", "klsa.lambda": "0.3,0.5,0.7,0.9"}),
}
METHODS = (*GRIDS, "auto")
FIGURES, PAGE = Path(__file__).with_suffix(".json"), ROOT / "docs" / "which-method.md"
AUTO_LABEL = "posteriors={:g},{:g} feedback={:g} bound={}"
DEFAULT, BEGIN, END = "default", "<!-- begin left-out -->", "<!-- end left-out -->"

#: The gain in MAP over BM25 in percent, by collection, method and setting.
Figures = dict[str, dict[str, dict[str, float]]]


def measure(name: str, collections: Path, scratch: Path) -> dict[str, dict[str, float]]:
    """The gain on the collection `name` by method and setting."""
    dataset = DATASETS[name]
    topics, qrels = dataset.read(collections)
    topics = {qid: topics[qid] for qid in judged_topics(topics, qrels)}
    index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
    maps: dict[str, dict[str, float]] = {}
    for method, (options, tried) in GRIDS.items():
        output = scratch / "tuned" / f"{name}-{method}.toml"
        tuned = kernelsearch.tune(index, topics, qrels, tried=tried, output=output, folds=2, **options)
        means = tuned.values.mean(axis=1).tolist()
        maps[method] = {DEFAULT: float(tuned.untuned.mean()), **dict(zip(map(label, tuned.tried), means, strict=True))}
    systems = kernelsearch.evaluate(index, topics, qrels, [None, "auto"], measures=["AP"]).evaluations
    base, default = (systems[system].mean("AP") for system in ("first stage", "auto"))
    # A condition lacks the end of the lists, which is the same under all settings.
    condition = measured(name, "topics", name, index, topics, qrels, scratch, most=len(topics))
    rest = default - auto.AUTO.ap(condition).mean()
    compared = {AUTO_LABEL.format(*key): float(setting.ap(condition).mean()) for key, setting in auto.settings().items()}
    maps["auto"] = {DEFAULT: default, **{text: value + rest for text, value in compared.items()}}
    return {method: {text: round(100 * (value / base - 1), 2) for text, value in own.items()} for method, own in maps.items()}


def mean(gains: Mapping[str, float]) -> float:
    """The mean of `gains` over collections, in which the languages of one count as one."""
    groups = [group(name) for name in gains]
    return float(np.average(list(gains.values()), weights=[1 / groups.count(own) for own in groups]))


def group(name: str) -> str:
    """The collection `name` without its language."""
    return name.partition("_")[0]


def choose(figures: Figures, method: str, left_out: str) -> str:
    """The setting of `method` with the largest mean gain on the collections of `figures` other than `left_out`."""
    seen = [name for name in figures if group(name) != group(left_out)]
    tried = [setting for setting in figures[left_out][method] if setting != DEFAULT]
    return max(tried, key=lambda setting: mean({name: figures[name][method][setting] for name in seen}))


def tables(figures: Figures) -> str:
    """The gains on the collections of `figures` that are left out and of the defaults there, and what is chosen."""
    chosen = {method: {name: choose(figures, method, name) for name in figures} for method in METHODS}
    held_out = {method: {name: figures[name][method][chosen[method][name]] for name in figures} for method in METHODS}
    default = {method: {name: figures[name][method][DEFAULT] for name in figures} for method in METHODS}
    rows = [[name, *(f"{held_out[m][name]:+z.1f} ({default[m][name]:+z.1f})" for m in METHODS)] for name in figures]
    for choice, gains in (("chosen on the others", held_out), ("default", default)):
        ranges = (f"{min(gains[method].values()):+z.0f} to {max(gains[method].values()):+z.0f}" for method in METHODS)
        rows.append([f"{choice}: lowest to highest", *ranges])
        rows.append([f"{choice}: mean", *(f"{mean(gains[method]):+z.1f}" for method in METHODS)])
    settings_of = []
    for method in METHODS:
        counts = Counter(chosen[method].values()).most_common()
        tried = len(next(iter(figures.values()))[method]) - 1
        settings_of.append([f"`{method}`", str(tried), "; ".join(f"{setting} ({times})" for setting, times in counts)])
    header = ("gain over BM25 in percent", *(f"`{method}`" for method in METHODS))
    second = markdown_table(("method", "settings", "chosen, for so many collections left out"), settings_of)
    return f"{markdown_table(header, rows)}\n\n{second}"


def main() -> None:
    """Measures all collections unless --page is given, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / "runs" / "reproduce-left-out", help="folder of indexes and gains"
    )
    parser.add_argument("--page", action="store_true", help="write the page from the saved figures")
    arguments = parser.parse_args()
    if not arguments.page:
        figures = {}
        for name in COLLECTIONS:
            figures[name] = measure(name, arguments.collections, arguments.scratch)
            print(name, {method: round(gains[DEFAULT], 1) for method, gains in figures[name].items()}, flush=True)
        lines = ",\n".join(f'"{name}": {json.dumps(gains)}' for name, gains in figures.items())
        FIGURES.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    figures = json.loads(FIGURES.read_text(encoding="utf-8"))
    PAGE.write_text(replace_between(PAGE.read_text(encoding="utf-8"), BEGIN, END, tables(figures)), encoding="utf-8")


if __name__ == "__main__":
    main()
