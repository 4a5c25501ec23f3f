"""Remakes the tables and figures of docs/reproductions/pert.md from the real collections.

    python tools/reproduce_pert.py --scratch DIR [--indexes DIR] [--step curves|grid|page] [--only cran,cisi]

The collections' folder is named by KERNELSEARCH_COLLECTIONS (default ../shared/collections). Indexes are built in the scratch
folder unless ready ones are named. Every system's per-query figures are kept in the scratch folder, so that an interrupted run
goes on where it stopped; `page` only reads them and rewrites the marked parts of the page and its pictures.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_rel

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.evaluation import risk
from kernelsearch.evaluation.risk_plot import plot_risk_reward
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.lucene.models import RM3, Feedback, Rocchio
from kernelsearch.rerankers.perturbation import PerturbationReranker
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.types import Candidates

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reproductions" / "pert.md"
NAMES = ("cacm", "cran", "cisi", "npl", "nfcorpus")
ALPHAS = tuple(round(0.1 * step, 1) for step in range(11))
GRID_ALPHAS = (0.4, 0.5, 0.6)
HALF = ALPHAS.index(0.5)
DEPTHS = (1000, 20)

#: The card's setting: what the figure and the table at alpha = .5 compare.
FIXED = {"docs": 10, "terms": 20, "temperature": 5.0, "kappa": 0.03}
CURVES: dict[str, dict[str, Any]] = {
    "LOO, √p": {"strategy": "loo", "denominator": "sqrt"},
    "LOO, p (Eq. 4)": {"strategy": "loo", "denominator": "p"},
    "TAT, √p": {"strategy": "tat", "denominator": "sqrt"},
    "TAT, p (Eq. 4)": {"strategy": "tat", "denominator": "p"},
    "G as covariance": {"kernel": "gram"},
    "Jaccard": {"kernel": "jaccard"},
    "random kernel": {"kernel": "random"},
    "RM3, all query terms": {"method": "rm3-all"},
}
ANSERINI = ("Anserini RM3", "Anserini Rocchio")
#: MAP of the card's table at alpha = .5, cacm with the repaired judgements.
CARD = {
    "LOO, √p": (0.3772, 0.3277, 0.2334, 0.3102, 0.1836),
    "Jaccard": (0.3773, 0.3275, 0.2342, 0.3096, 0.1839),
    "G as covariance": (0.3637, 0.3250, 0.2340, 0.3117, 0.1850),
}


def grid() -> Iterator[dict[str, Any]]:
    """Settings that the default is chosen from: one change at a time around the fixed one, for the program and for RM3."""
    for method in ("program", "rm3-all"):
        base = {**FIXED, "method": method}
        yield base
        changes = [("docs", 15), ("docs", 20), ("terms", 30), ("terms", 40), ("temperature", 2.0), ("temperature", 10.0)]
        if method == "program":
            changes += [("kappa", 0.01), ("kappa", 0.1), ("kappa", 0.3)]
        for name, value in changes:
            yield {**base, name: value}


def key(setting: dict[str, Any]) -> str:
    return "_".join(f"{name}={value}" for name, value in sorted(setting.items()))


@dataclass
class Collection:
    """A collection's index, judged queries and first-stage lists; nothing is loaded before it is needed."""

    name: str
    folder: Path
    index_path: Path
    judgements: str = "qrels.txt"

    @cached_property
    def index(self) -> kernelsearch.Index:
        if not self.index_path.exists():
            corpus = "corpus.anserini.jsonl" if self.name == "cacm" else "corpus.jsonl"
            index_verb.main(["--input", str(self.folder / corpus), "--index", str(self.index_path)])
        return kernelsearch.open(self.index_path)

    @cached_property
    def qids(self) -> list[str]:
        qrels = read_qrels(self.folder / self.judgements)
        return [
            qid for qid in read_topics(self.folder / "topics.tsv") if any(grade > 0 for grade in qrels.get(qid, {}).values())
        ]

    @cached_property
    def queries(self) -> list[Any]:
        topics = read_topics(self.folder / "topics.tsv")
        return self.index.lucene.queries([topics[qid] for qid in self.qids], self.qids)

    @cached_property
    def first(self) -> list[Candidates]:
        return self.index.lucene.search(self.queries, 1000)

    @cached_property
    def judged(self) -> JudgedRows:
        return JudgedRows(self.index.forward, read_qrels(self.folder / self.judgements), self.qids)

    def figures(self, lists: list[list[Candidates]]) -> dict[str, Any]:
        """AP and relevant documents at each depth, (settings, queries)."""
        out = {"ap": np.array([self.judged.average_precision(one) for one in lists])}
        out |= {f"found{depth}": np.array([self.judged.retrieved(one, depth) for one in lists]) for depth in DEPTHS}
        return out

    def sweep(self, options: dict[str, Any], alphas: tuple[float, ...]) -> list[list[Candidates]]:
        reranker = PerturbationReranker(self.index, **options)
        reranker.hits, reranker.threads = 1000, 2
        return reranker.sweep(self.queries, self.first, alphas)

    def feedback(self, method: Feedback) -> list[Candidates]:
        return self.index.lucene.search(self.queries, 1000, feedback=method, threads=2)


def anserini(name: str, alpha: float) -> Feedback:
    """Anserini's methods on the same scale: (1 - alpha) query + alpha feedback."""
    return RM3(original_weight=1 - alpha) if name == "Anserini RM3" else Rocchio(alpha=1 - alpha, beta=alpha)


def collections(arguments: argparse.Namespace) -> list[Collection]:
    """The five collections, cacm twice: with the repaired judgements, and with Anserini's own."""
    folder = Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or ROOT.parent / "shared" / "collections")
    indexes = Path(arguments.indexes or arguments.scratch / "indexes")
    found = [Collection(name, folder / name, indexes / name) for name in NAMES]
    return [*found, Collection("cacm", folder / "cacm", indexes / "cacm", "qrels.anserini.txt")]


def stored(scratch: Path, collection: Collection, system: str) -> Path:
    judged = "" if collection.judgements == "qrels.txt" else "-anserini"
    return scratch / "figures" / f"{collection.name}{judged}" / f"{system.replace('/', '-')}.npz"


def make(scratch: Path, collection: Collection, system: str, lists: Any) -> None:
    """Computes and keeps a system's figures unless they are there already."""
    path = stored(scratch, collection, system)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial.npz")
    np.savez(temporary, **collection.figures(lists()))
    temporary.rename(path)
    print(collection.name, collection.judgements, system, flush=True)


def curves(scratch: Path, found: list[Collection]) -> None:
    """Figure 3's systems at all values of alpha, on the repaired judgements."""
    for one in found:
        if one.judgements != "qrels.txt":
            continue
        make(scratch, one, "BM25", lambda one=one: [one.first])
        for label, options in CURVES.items():
            make(scratch, one, label, lambda one=one, options=options: one.sweep({**FIXED, **options}, ALPHAS))
        for label in ANSERINI:
            make(
                scratch,
                one,
                label,
                lambda one=one, label=label: [one.first if a == 0 else one.feedback(anserini(label, a)) for a in ALPHAS],
            )
        make(scratch, one, "Rocchio as shipped", lambda one=one: [one.feedback(Rocchio())])
        for seed in range(1, 6):
            options = {**FIXED, "kernel": "random", "seed": seed}
            make(scratch, one, f"random kernel {seed}", lambda one=one, options=options: one.sweep(options, (0.5,)))


def grid_search(scratch: Path, found: list[Collection]) -> None:
    """The settings that the default is chosen from, on the judgements that Anserini's published figures use."""
    for one in found:
        if one.name == "cacm" and one.judgements == "qrels.txt":
            continue
        make(scratch, one, "BM25", lambda one=one: [one.first])
        make(scratch, one, "RM3 as shipped", lambda one=one: [one.feedback(RM3())])
        for setting in grid():
            make(scratch, one, key(setting), lambda one=one, setting=setting: one.sweep(setting, GRID_ALPHAS))


def read(scratch: Path, collection: Collection, system: str) -> dict[str, Any]:
    with np.load(stored(scratch, collection, system)) as arrays:
        return dict(arrays)


def markdown(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def points(scratch: Path, one: Collection, system: str, depth: int = 1000) -> list[risk.RiskPoint]:
    base, figures = read(scratch, one, "BM25"), read(scratch, one, system)
    alphas = ALPHAS if len(figures["ap"]) == len(ALPHAS) else (0.5,) * len(figures["ap"])
    return risk.risk_reward_curve(
        alphas,
        base["ap"][0],
        list(figures["ap"]),
        relevant_before=base[f"found{depth}"][0],
        relevant_after=list(figures[f"found{depth}"]),
    )


def half_table(scratch: Path, one: Collection) -> str:
    """All systems at alpha = .5 with paired t-tests against BM25 and RM3."""
    base, rm3 = read(scratch, one, "BM25")["ap"][0], read(scratch, one, "Anserini RM3")["ap"][HALF]
    rows = [("BM25", f"{base.mean():.4f}", "", "", "", "", "", "", "")]
    for system in [*CURVES, *ANSERINI, "Rocchio as shipped"]:
        ap = read(scratch, one, system)["ap"]
        values = ap[HALF] if len(ap) > 1 else ap[0]
        point, short = (points(scratch, one, system, depth)[HALF if len(ap) > 1 else 0] for depth in DEPTHS)
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
    return markdown(header, rows)


def probability(one: Any, other: Any) -> str:
    return "1" if np.allclose(one, other) else f"{ttest_rel(one, other).pvalue:.2g}"


def kernel_table(scratch: Path, found: list[Collection]) -> str:
    """Does the kernel matter? LOO against each alternative at alpha = .5, all queries of all collections together."""
    alternatives = [
        "LOO, p (Eq. 4)",
        "TAT, √p",
        "TAT, p (Eq. 4)",
        "G as covariance",
        "Jaccard",
        "random kernel",
        "RM3, all query terms",
    ]
    base = np.concatenate([read(scratch, one, "BM25")["ap"][0] for one in found])

    def pooled(system: str) -> Any:
        return np.concatenate([read(scratch, one, system)["ap"][HALF] for one in found])

    loo = pooled("LOO, √p")
    rows = []
    for system in ["LOO, √p", *alternatives, *ANSERINI]:
        values = pooled(system)
        changed = int((np.abs(values - loo) > 1e-9).sum())
        rows.append(
            (
                system,
                f"{values.mean():.4f}",
                f"{risk.hurt(base, values)}",
                f"{risk.lost(base, values):.2f}",
                f"{risk.urisk(base, values):+.4f}",
                f"{risk.trisk(base, values):+.2f}",
                "" if system == "LOO, √p" else f"{(loo - values).mean():+.4f}",
                "" if system == "LOO, √p" else str(changed),
                "" if system == "LOO, √p" else probability(loo, values),
            )
        )
    seeds = [np.concatenate([read(scratch, one, f"random kernel {seed}")["ap"][0] for one in found]) for seed in range(1, 6)]
    rows.append(
        (
            "random kernel, five more seeds",
            f"{min(s.mean() for s in seeds):.4f} to {max(s.mean() for s in seeds):.4f}",
            f"{min(risk.hurt(base, s) for s in seeds)} to {max(risk.hurt(base, s) for s in seeds)}",
            f"{min(risk.lost(base, s) for s in seeds):.2f} to {max(risk.lost(base, s) for s in seeds):.2f}",
            *[""] * 5,
        )
    )
    header = ("", "mean AP", "hurt", "AP lost", "URisk", "TRisk", "LOO minus it", "queries that differ", "p")
    return markdown(header, rows)


def georisk_table(scratch: Path, found: list[Collection]) -> str:
    """GeoRisk over all queries of all collections, alpha of the measure 1 and 5."""
    systems = ["BM25", *CURVES, *ANSERINI]
    values = [np.concatenate([read(scratch, one, s)["ap"][HALF if s != "BM25" else 0] for one in found]) for s in systems]
    mild, strict = risk.georisk(values, 1.0), risk.georisk(values, 5.0)
    return markdown(
        ("", "GeoRisk, 1", "GeoRisk, 5"), [(s, f"{a:.4f}", f"{b:.4f}") for s, a, b in zip(systems, mild, strict, strict=True)]
    )


def card_table(scratch: Path, found: list[Collection]) -> str:
    rows = []
    for system, expected in CARD.items():
        ours = [read(scratch, one, system)["ap"][HALF].mean() for one in found]
        rows.append((system, *(f"{o:.4f} ({o - e:+.4f})" for o, e in zip(ours, expected, strict=True))))
    return markdown(("", *NAMES), rows)


def choose(scratch: Path, found: list[Collection]) -> tuple[dict[str, Any], float]:
    """The rule: of the settings that hurt at least a quarter fewer queries than RM3, the one of the highest mean gain."""
    best: tuple[float, dict[str, Any], float] | None = None
    bases = [read(scratch, one, "BM25")["ap"][0] for one in found]
    limit = 0.75 * sum(risk.hurt(b, read(scratch, one, "RM3 as shipped")["ap"][0]) for b, one in zip(bases, found, strict=True))
    for setting in grid():
        values = [read(scratch, one, key(setting))["ap"] for one in found]
        for place, alpha in enumerate(GRID_ALPHAS):
            hurt = sum(risk.hurt(b, v[place]) for b, v in zip(bases, values, strict=True))
            gain = float(np.mean([risk.relative_gain(b, v[place]) for b, v in zip(bases, values, strict=True)]))
            if hurt <= limit and (best is None or gain > best[0]):
                best = (gain, setting, alpha)
    if best is None:
        raise SystemExit("no setting hurts a quarter fewer queries than RM3")
    return best[1], best[2]


def default_table(scratch: Path, found: list[Collection]) -> str:
    """RM3 against the setting chosen on the other collections, against the one chosen on all, and against the default."""
    everywhere = choose(scratch, found)
    default = {**FIXED, "kappa": 0.01, "method": "program"}
    rows, sums = [], np.zeros(4, dtype=int)
    for one in found:
        base, rm3 = read(scratch, one, "BM25")["ap"][0], read(scratch, one, "RM3 as shipped")["ap"][0]
        chosen = [choose(scratch, [other for other in found if other is not one]), everywhere, (default, 0.5)]
        values = [rm3] + [read(scratch, one, key(setting))["ap"][GRID_ALPHAS.index(alpha)] for setting, alpha in chosen]
        sums += [risk.hurt(base, value) for value in values]
        cells = [f"{value.mean():.4f} ({risk.hurt(base, value)})" for value in values]
        rows.append((one.name, f"{base.mean():.4f}", *cells, described(*chosen[0])))
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
    return markdown(header, rows) + f"\n\nChosen on all five: {described(*everywhere)}. Default: {described(default, 0.5)}."


def described(setting: dict[str, Any], alpha: float) -> str:
    risky = f", kappa {setting['kappa']}" if setting["method"] == "program" else ""
    return (
        f"{setting['method']}, alpha {alpha}, {setting['docs']} documents, {setting['terms']} words, "
        f"temperature {setting['temperature']:g}{risky}"
    )


def page(scratch: Path, found: list[Collection]) -> None:
    """Rewrites what stands between the page's markers, and the figures."""
    repaired = [one for one in found if one.judgements == "qrels.txt"]
    published = [next(one for one in found if one.judgements != "qrels.txt"), *repaired[1:]]
    panels = {one.name: {system: points(scratch, one, system) for system in [*CURVES, *ANSERINI]} for one in repaired}
    for axis, stem in (("hurt", "pert-hurt"), ("lost", "pert-lost"), ("r_loss", "pert-rloss")):
        plot_risk_reward(panels, PAGE.parent / f"{stem}.svg", risk=axis)
    text = PAGE.read_text(encoding="utf-8")
    parts = {f"half-{one.name}": half_table(scratch, one) for one in repaired}
    parts |= {
        "kernel": kernel_table(scratch, repaired),
        "georisk": georisk_table(scratch, repaired),
        "card": card_table(scratch, repaired),
        "default": default_table(scratch, published),
    }
    for name, body in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        head, _, rest = text.partition(begin)
        _, found_end, tail = rest.partition(end)
        if not found_end:
            raise SystemExit(f"{PAGE}: has no place for {name}")
        text = f"{head}{begin}\n{body}\n{end}{tail}"
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE}: written")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--indexes", help="folder of ready indexes by collection name")
    parser.add_argument("--step", choices=("curves", "grid", "page", "all"), default="all")
    parser.add_argument("--only", help="collections of this step, separated by commas")
    arguments = parser.parse_args()
    found = collections(arguments)
    if arguments.only:
        found = [one for one in found if one.name in arguments.only.split(",")]
    if arguments.step in ("curves", "all"):
        curves(arguments.scratch, found)
    if arguments.step in ("grid", "all"):
        grid_search(arguments.scratch, found)
    if arguments.step in ("page", "all"):
        page(arguments.scratch, found)


if __name__ == "__main__":
    main()
