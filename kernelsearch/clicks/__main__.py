"""`python -m kernelsearch.clicks`: import, aggregate, look at and simulate click logs."""

from __future__ import annotations

import sys
from argparse import Namespace

from kernelsearch.cli import console
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.tables import text_table

EXAMPLES = """examples:
  python -m kernelsearch.clicks import --input sessions.jsonl.gz --output clicks.db
  python -m kernelsearch.clicks import --input monday.tsv --output clicks.db --append
  python -m kernelsearch.clicks stats --log clicks.db
  python -m kernelsearch.clicks pairs --log clicks.db --query "new york" --kind skipped
  python -m kernelsearch.clicks simulate --index indexes/cacm --topics topics.tsv --qrels qrels.txt --output sessions.jsonl
"""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.clicks", description=__doc__, epilog=EXAMPLES)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="import|aggregate|stats|pairs|simulate")

    verb = verbs.add_parser("import", help="read logs into a database")
    verb.add_argument("--input", required=True, nargs="+", help="JSON lines of sessions, TSV tables, or ir_datasets:NAME")
    verb.add_argument("--output", required=True, help="the database; replaced unless --append")
    verb.add_argument("--append", action="store_true", help="add to the database")
    verb.add_argument("--eta", type=float, help="position bias: position r is looked at with propensity r^-eta [1]")
    verb.set_defaults(act=_import)

    verb = verbs.add_parser("aggregate", help="sum a database's records again with another position bias")
    verb.add_argument("--log", required=True, help="the database")
    verb.add_argument("--eta", type=float, required=True, help="position r is looked at with propensity r^-eta")
    verb.set_defaults(act=_aggregate)

    verb = verbs.add_parser("stats", help="how large a log is, and its most clicked queries")
    verb.add_argument("--log", required=True, help="the database")
    verb.add_argument("--top", type=int, default=10, help="queries to list [10]")
    verb.set_defaults(act=_stats)

    verb = verbs.add_parser("pairs", help="preference pairs of some queries, as TSV: query, preferred, other, weight")
    verb.add_argument("--log", required=True, help="the database")
    verb.add_argument("--query", nargs="*", help="queries [all]")
    verb.add_argument("--kind", default="shown", help="shown, skipped or rate [shown]")
    verb.add_argument("--limit", type=int, default=20, help="pairs a query [20]")
    verb.add_argument("--corrected", action="store_true", help="correct for position bias")
    verb.set_defaults(act=_pairs)

    verb = verbs.add_parser("simulate", help="make a log from judged topics with a seeded click model")
    verb.add_argument(
        "--index", action="append", help="index whose BM25 lists are shown; repeatable: several are one collection"
    )
    verb.add_argument("--run", help="show the lists of a run file instead")
    verb.add_argument("--topics", required=True, help="topics file")
    verb.add_argument("--qrels", required=True, help="judgements that drive the clicks")
    verb.add_argument("--variants", help="TSV of qid, another wording of the topic; logged like the topics (needs --index)")
    verb.add_argument("--output", required=True, help="JSON lines of sessions")
    verb.add_argument("--impressions", type=int, default=10_000, help="lists to show [10000]")
    verb.add_argument("--model", choices=("position", "cascade"), default="position", help="click model [position]")
    verb.add_argument("--depth", type=int, default=10, help="documents a list [10]")
    verb.add_argument("--explore", type=float, default=0.3, help="share of lists with documents the engine misses [0.3]")
    verb.add_argument("--noise", type=float, default=0.05, help="click probability of a document that is not relevant [0.05]")
    verb.add_argument("--seed", type=int, default=1, help="the same seed gives the same bytes [1]")
    verb.set_defaults(act=_simulate)

    arguments = parser.parse_args(argv)
    arguments.act(arguments)


def _import(arguments: Namespace) -> None:
    from kernelsearch.clicks.importing import import_log

    _check_eta(arguments.eta)
    done = import_log(arguments.input, arguments.output, append=arguments.append, eta=arguments.eta, progress=console.progress)
    taken = [f"{count} {name}" for count, name in ((done.impressions, "impressions"), (done.tallies, "rows")) if count]
    console.notice(f"{arguments.output}: {' and '.join(taken)} imported, {done.skipped.total} lines skipped")
    for line in done.skipped.lines():
        console.notice(f"  skipped {line}")


def _aggregate(arguments: Namespace) -> None:
    from kernelsearch.clicks.importing import aggregate

    _check_eta(arguments.eta)
    aggregate(arguments.log, arguments.eta)


def _check_eta(eta: float | None) -> None:
    if eta is not None and not 0 <= eta <= 10:
        raise OptionError(f"--eta: {eta} is not between 0 and 10")


def _stats(arguments: Namespace) -> None:
    from kernelsearch.clicks.store import ClickLog

    log = ClickLog(arguments.log)
    totals = log.totals()
    rows = [(name, getattr(totals, name)) for name in totals.__dataclass_fields__]
    print(text_table(("count", "value"), rows))
    if arguments.top > 0:
        print()
        print(text_table(("query", "impressions", "clicks"), log.most_clicked(arguments.top)))


def _pairs(arguments: Namespace) -> None:
    from kernelsearch.clicks.pairs import preferences
    from kernelsearch.clicks.store import ClickLog

    if arguments.limit < 1:
        raise OptionError(f"--limit: {arguments.limit} is below 1")
    log = ClickLog(arguments.log)
    if arguments.query:
        numbers = log.query_ids(arguments.query).tolist()
        for text, number in zip(arguments.query, numbers, strict=True):
            if number < 0:
                raise InputError(f"{arguments.log}: query {text!r} isn't in the log")
        queries = list(zip(numbers, arguments.query, strict=True))
    else:
        queries = list(log.all_queries())
    for number, text in queries:
        found = preferences(log, [number], kind=arguments.kind, limit=arguments.limit, corrected=arguments.corrected)
        for better, worse, weight in zip(log.docids(found.better), log.docids(found.worse), found.weights, strict=True):
            print(f"{text}\t{better}\t{worse}\t{weight:.4g}")


def _simulate(arguments: Namespace) -> None:
    from kernelsearch.api.index import Index
    from kernelsearch.clicks.models import Cascade, ClickModel, PositionBased
    from kernelsearch.clicks.simulate import needs_from_run, needs_from_search, simulate, write_sessions

    if arguments.impressions < 1 or arguments.depth < 1:
        raise OptionError("--impressions and --depth must be at least 1")
    if not 0 <= arguments.explore <= 1 or not 0 <= arguments.noise <= 0.9:
        raise OptionError("--explore must be between 0 and 1, --noise between 0 and 0.9")
    if bool(arguments.index) == bool(arguments.run):
        raise OptionError("--index or --run: give one of them")
    if arguments.run and arguments.variants:
        raise OptionError("--variants needs --index: a run has no lists for them")
    others: list[str] = []
    if arguments.run:
        needs = needs_from_run(arguments.run, arguments.topics, arguments.qrels)
    else:
        index = Index(arguments.index, progress=console.progress)
        docids = index.forward.docids

        def search(texts: list[str]) -> list[list[str]]:
            lists = index.lucene.search(index.lucene.queries(texts), arguments.depth)
            return [docids.take(found.docs) for found in lists]

        needs = needs_from_search(search, arguments.topics, arguments.qrels, arguments.variants)
        others = sorted(docids.take(index.forward.live_docs))
    model: ClickModel = PositionBased() if arguments.model == "position" else Cascade()
    sessions = simulate(
        needs,
        arguments.impressions,
        model=model,
        seed=arguments.seed,
        depth=arguments.depth,
        explore=arguments.explore,
        noise=arguments.noise,
        others=others,
    )
    console.notice(f"{arguments.output}: {write_sessions(sessions, arguments.output)} impressions of {len(needs)} queries")


if __name__ == "__main__":
    console.run(main, sys.argv[1:])
