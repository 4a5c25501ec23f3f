"""`python -m kernelsearch.evaluate`: what runs are worth, by judgements."""

from __future__ import annotations

from pathlib import Path

from kernelsearch import console
from kernelsearch.errors import InputError
from kernelsearch.evaluation.measures import DEFAULT, Evaluation, evaluate, parse_measures
from kernelsearch.inputs import load_qrels
from kernelsearch.options import Option, add_flags, collect, resolve
from kernelsearch.trec import read_run

OPTIONS = (
    Option("qrels", str, None, "judgements: a TREC or BEIR file, or irds:NAME"),
    Option("measures", str, DEFAULT, "measures, by ir_measures' or trec_eval's names", many=True),
    Option("per-query", bool, False, "a line for every topic, too"),
    Option("complete", bool, True, "count judged topics that a run lacks as zero, as trec_eval -c does"),
)

EXAMPLES = """examples:
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt runs/klsa.txt --measures AP,nDCG@10,P@5
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt --per-query"""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.evaluate", description="Evaluates run files.", epilog=EXAMPLES)
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run files")
    add_flags(parser, OPTIONS)
    arguments = parser.parse_args(argv)
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    if settings["qrels"] is None:
        parser.error("--qrels is not given")
    measures = parse_measures(settings["measures"])
    qrels = load_qrels(settings["qrels"])
    found: dict[str, Evaluation] = {}
    for path, label in zip(arguments.runs, labels(arguments.runs), strict=True):
        found[label] = evaluate(qrels, read_run(path), measures, complete=settings["complete"])
        if len(found[label].missing) == len(qrels):
            raise InputError(f"{path}: none of its topics is judged in {settings['qrels']}")
    names = [str(measure) for measure in measures]
    if settings["per_query"]:
        rows = [
            (label, qid, *(f"{one.values[name].get(qid, 0.0):.4f}" for name in names))
            for label, one in found.items()
            for qid in one.topics
        ]
        print(console.table(("run", "topic", *names), rows, align="<<" + ">" * len(names)), end="\n\n")
    means = [(label, str(len(one.topics)), *(f"{one.mean(name):.4f}" for name in names)) for label, one in found.items()]
    print(console.table(("run", "topics", *names), means))
    for label, one in found.items():
        if one.missing:
            how = "count as zero (--no-complete leaves them out)" if settings["complete"] else "are left out"
            console.notice(f"{label}: {len(one.missing)} judged topics are not in the run and {how}")
        if one.unjudged:
            console.notice(f"{label}: {len(one.unjudged)} topics of the run have no judgements and are left out")


def labels(paths: list[str]) -> list[str]:
    """Short names for runs: file names where they differ, whole paths where they don't."""
    names = [Path(path).name.removesuffix(".gz").removesuffix(".txt") for path in paths]
    return names if len(set(names)) == len(names) else list(paths)


if __name__ == "__main__":
    console.run(main)
