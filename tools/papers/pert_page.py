"""Tables and figures of docs/reproductions/pert.md, from the figures that tools.papers.pert keeps in `scratch`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

from kernelsearch.evaluation import risk
from kernelsearch.papers.risk_reward import RiskPoint, plot_risk_reward, relative_gain, risk_reward_curve
from tools import ROOT
from tools.papers.pert import (
    ALPHAS,
    ANSERINI,
    CURVES,
    DEPTHS,
    FIXED,
    GRID_ALPHAS,
    HALF,
    NAMES,
    Collection,
    grid,
    key,
    read,
)
from tools.reproduce.pages import markdown_table, replace_between

PAGE = ROOT / "docs" / "reproductions" / "pert.md"
#: MAP of an earlier prototype at alpha = .5, cacm with the repaired judgements.
PROTOTYPE = {
    "LOO, √p": (0.3772, 0.3277, 0.2334, 0.3102, 0.1836),
    "Jaccard": (0.3773, 0.3275, 0.2342, 0.3096, 0.1839),
    "G as covariance": (0.3637, 0.3250, 0.2340, 0.3117, 0.1850),
}


def points(scratch: Path, collection: Collection, system: str, depth: int = 1000) -> list[RiskPoint]:
    """The curve of risk and reward of a `system` on a `collection`; relevant documents are counted down to `depth`."""
    base, figures = read(scratch, collection, "BM25"), read(scratch, collection, system)
    alphas = ALPHAS if len(figures["ap"]) == len(ALPHAS) else (0.5,) * len(figures["ap"])
    return risk_reward_curve(
        alphas,
        base["ap"][0],
        list(figures["ap"]),
        relevant_before=base[f"found{depth}"][0],
        relevant_after=list(figures[f"found{depth}"]),
    )


def half_table(scratch: Path, collection: Collection) -> str:
    """All systems on a `collection` at alpha = .5 with paired t-tests against BM25 and RM3."""
    base, rm3 = read(scratch, collection, "BM25")["ap"][0], read(scratch, collection, "Anserini RM3")["ap"][HALF]
    rows = [("BM25", f"{base.mean():.4f}", "", "", "", "", "", "", "")]
    for system in [*CURVES, *ANSERINI, "Rocchio as shipped"]:
        ap = read(scratch, collection, system)["ap"]
        values = ap[HALF] if len(ap) > 1 else ap[0]
        point, short = (points(scratch, collection, system, depth)[HALF if len(ap) > 1 else 0] for depth in DEPTHS)
        rows.append(
            (
                system,
                f"{point.mean:.4f}",
                f"{100 * point.gain:+.1f}%",
                str(point.r_loss),
                str(short.r_loss),
                f"{point.helped} / {point.hurt}",
                f"{point.lost:.2f}",
                probability(values, base),
                probability(values, rm3) if system != "Anserini RM3" else "",
            )
        )
    header = ("", "MAP", "gain", "R-Loss@1000", "R-Loss@20", "helped / hurt", "AP lost", "p, BM25", "p, RM3")
    return markdown_table(header, rows)


def probability(first: Any, other: Any) -> str:
    """p of the paired t-test of `first` against `other`, AP per query each, as text."""
    return "1" if np.allclose(first, other) else f"{ttest_rel(first, other).pvalue:.2g}"


def kernel_table(scratch: Path, collections: list[Collection]) -> str:
    """Does the kernel matter? LOO against each alternative at alpha = .5, all queries of all `collections` together."""
    base = np.concatenate([read(scratch, collection, "BM25")["ap"][0] for collection in collections])
    systems = {
        system: np.concatenate([read(scratch, collection, system)["ap"][HALF] for collection in collections])
        for system in [*CURVES, *ANSERINI]
    }
    geo = risk.georisk([base, *systems.values()])
    loo = systems["LOO, √p"]
    rows: list[tuple[str, ...]] = [("BM25", f"{base.mean():.4f}", "", "", "", "", f"{geo[0]:.4f}", "", "")]
    for (system, values), together in zip(systems.items(), geo[1:], strict=True):
        against = ("", "") if system == "LOO, √p" else (f"{(loo - values).mean():+.4f}", probability(loo, values))
        figures = (f"{risk.urisk(base, values):+.4f}", f"{risk.trisk(base, values):+.2f}", f"{together:.4f}")
        rows.append(
            (system, f"{values.mean():.4f}", str(risk.hurt(base, values)), f"{risk.lost(base, values):.2f}", *figures, *against)
        )
    seeds = [
        np.concatenate([read(scratch, collection, f"random kernel {seed}")["ap"][0] for collection in collections])
        for seed in range(1, 6)
    ]
    ranges = [
        f"{min(values):{form}} to {max(values):{form}}"
        for values, form in (
            ([seed.mean() for seed in seeds], ".4f"),
            ([risk.hurt(base, seed) for seed in seeds], "d"),
            ([risk.lost(base, seed) for seed in seeds], ".2f"),
        )
    ]
    rows.append(("random kernel, five more seeds", *ranges, *[""] * 5))
    return markdown_table(("", "mean AP", "hurt", "AP lost", "URisk", "TRisk", "GeoRisk", "LOO minus it", "p"), rows)


def prototype_table(scratch: Path, collections: list[Collection]) -> str:
    """MAP at alpha = .5 on `collections` beside that of an earlier prototype."""
    rows = []
    for system, expected in PROTOTYPE.items():
        ours = [read(scratch, collection, system)["ap"][HALF].mean() for collection in collections]
        rows.append((system, *(f"{o:.4f} ({o - e:+.4f})" for o, e in zip(ours, expected, strict=True))))
    return markdown_table(("", *NAMES), rows)


def choose(scratch: Path, collections: list[Collection]) -> tuple[dict[str, Any], float]:
    """The rule: of the settings that hurt at least a quarter fewer queries than RM3, the one of the highest mean gain.

    Measured on `collections`; returns the setting and alpha.
    """
    best: tuple[float, dict[str, Any], float] | None = None
    bases = [read(scratch, collection, "BM25")["ap"][0] for collection in collections]
    limit = 0.75 * sum(
        risk.hurt(b, read(scratch, collection, "RM3 as shipped")["ap"][0])
        for b, collection in zip(bases, collections, strict=True)
    )
    for setting in grid():
        values = [read(scratch, collection, key(setting))["ap"] for collection in collections]
        for place, alpha in enumerate(GRID_ALPHAS):
            hurt = sum(risk.hurt(b, v[place]) for b, v in zip(bases, values, strict=True))
            gain = float(np.mean([relative_gain(b, v[place]) for b, v in zip(bases, values, strict=True)]))
            if hurt <= limit and (best is None or gain > best[0]):
                best = (gain, setting, alpha)
    if best is None:
        raise SystemExit("no setting hurts a quarter fewer queries than RM3")
    return best[1], best[2]


def default_table(scratch: Path, collections: list[Collection]) -> str:
    """RM3 against the setting chosen on the other `collections`, against the one chosen on all, and against the default."""
    everywhere = choose(scratch, collections)
    default = {**FIXED, "kappa": 0.01, "method": "program"}
    rows, sums = [], np.zeros(4, dtype=int)
    for collection in collections:
        base, rm3 = read(scratch, collection, "BM25")["ap"][0], read(scratch, collection, "RM3 as shipped")["ap"][0]
        chosen = [choose(scratch, [other for other in collections if other is not collection]), everywhere, (default, 0.5)]
        values = [rm3] + [read(scratch, collection, key(setting))["ap"][GRID_ALPHAS.index(alpha)] for setting, alpha in chosen]
        sums += [risk.hurt(base, value) for value in values]
        cells = [f"{value.mean():.4f} ({risk.hurt(base, value)})" for value in values]
        rows.append((collection.name, f"{base.mean():.4f}", *cells, described(*chosen[0])))
    rows.append(("queries hurt in sum", "", *(str(count) for count in sums), ""))
    header = (
        "",
        "BM25",
        "Anserini RM3",
        "chosen on the other four",
        "chosen on all five",
        "default",
        "what the other four chose",
    )
    return (
        markdown_table(header, rows) + f"\n\nChosen on all five: {described(*everywhere)}. Default: {described(default, 0.5)}."
    )


def unseen_table(scratch: Path, others: list[Collection]) -> str:
    """The default on collections (`others`) whose queries had no part in choosing it."""
    rows = []
    for collection in others:
        base, rm3 = read(scratch, collection, "BM25")["ap"][0], read(scratch, collection, "RM3 as shipped")["ap"][0]
        label = f"{collection.name}, {len(base)} queries"
        rows.append((label, "BM25", f"{base.mean():.4f}", "", "", "", ""))
        for system in ("RM3 as shipped", "Rocchio as shipped", "default", "default, RM3 with all query terms"):
            values = read(scratch, collection, system)["ap"][0]
            counts = f"{risk.helped(base, values)} / {risk.hurt(base, values)}"
            against = ("", "") if system == "RM3 as shipped" else (f"{(values - rm3).mean():+.4f}", probability(values, rm3))
            rows.append((label, system, f"{values.mean():.4f}", counts, f"{risk.lost(base, values):.2f}", *against))
    return markdown_table(("", "system", "MAP", "helped / hurt", "AP lost", "minus RM3", "p"), rows)


def described(setting: dict[str, Any], alpha: float) -> str:
    """A `setting` and `alpha` in words."""
    risky = f", kappa {setting['kappa']}" if setting["method"] == "program" else ""
    return (
        f"{setting['method']}, alpha {alpha}, {setting['docs']} documents, {setting['terms']} words, "
        f"temperature {setting['temperature']:g}{risky}"
    )


def write_page(scratch: Path, collections: list[Collection], others: list[Collection]) -> None:
    """Rewrites the marked parts of the page, and the figures.

    `collections` are those of `tools.papers.pert.collections`, `others` those of its `unseen`.
    """
    repaired = [collection for collection in collections if collection.judgements == "qrels.txt"]
    published = [next(collection for collection in collections if collection.judgements != "qrels.txt"), *repaired[1:]]
    panels = {
        collection.name: {system: points(scratch, collection, system) for system in [*CURVES, *ANSERINI]}
        for collection in repaired
    }
    for axis, stem in (("hurt", "pert-hurt"), ("lost", "pert-lost"), ("r_loss", "pert-rloss")):
        plot_risk_reward(panels, PAGE.parent / f"{stem}.svg", risk=axis)
    text = PAGE.read_text(encoding="utf-8")
    parts = {f"half-{collection.name}": half_table(scratch, collection) for collection in repaired}
    parts |= {
        "kernel": kernel_table(scratch, repaired),
        "prototype": prototype_table(scratch, repaired),
        "default": default_table(scratch, published),
        "unseen": unseen_table(scratch, others),
    }
    for name, body in parts.items():
        text = replace_between(text, f"<!-- begin {name} -->", f"<!-- end {name} -->", body)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: written")
