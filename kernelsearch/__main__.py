"""`kernelsearch VERB` and `python -m kernelsearch VERB`: the verbs, each of which is `python -m kernelsearch.VERB` as well."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from kernelsearch.cli import console
from kernelsearch.core.errors import nearest
from kernelsearch.core.version import __version__

#: The verbs, in the order in which they are mostly used.
VERBS = {
    "index": "build a Lucene index and its forward index from documents",
    "search": "search an index, rerank, and print a table or write a run file",
    "explain": "show why a document is ranked where it is",
    "similar": "find documents similar to a document",
    "evaluate": "evaluate run files by relevance judgements and compare them",
    "train": "fit what a method needs, such as a fusion from judgements",
    "ltr": "learn to rank files of features (LETOR) and apply the model",
    "classify": "train and apply text classifiers over multi-scale kernels",
    "tune": "find good settings by cross-validation over topics",
    "clicks": "import, export, describe or simulate a click log",
    "vectors": "import or compute vectors of documents",
    "serve": "serve indexes over HTTP, with a page for the browser",
    "merge": "join the run files of a search in parts",
    "check": "verify every file of an index, and repair what can be rebuilt",
    "demo": "run every method on the bundled collection",
    "reproduce": "measure the published figures again",
}

USAGE = """usage: kernelsearch VERB [options]        (or python -m kernelsearch.VERB [options])

{verbs}

kernelsearch VERB --help describes a verb. The first steps:
  kernelsearch index --input corpus.jsonl --index indexes/mine
  kernelsearch search --index indexes/mine --query "dripping tap"
  kernelsearch search --index indexes/mine --query "dripping tap" --rerank auto"""


def main(argv: list[str] | None = None) -> None:
    """Runs the verb that the first argument names; without one, or with --help, lists the verbs."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments[:1] == ["help"] and arguments[1:2] and arguments[1] in VERBS:
        arguments = [arguments[1], "--help"]
    verb = arguments[0] if arguments else "--help"
    if verb in ("-h", "--help", "help"):
        print(USAGE.format(verbs="\n".join(f"  {name:<10} {summary}" for name, summary in VERBS.items())))
        return
    if verb in ("-V", "--version"):
        print(f"kernelsearch {__version__}")
        return
    if verb not in VERBS:
        print(f"kernelsearch: no verb {verb!r}; the verbs are {', '.join(VERBS)}{nearest(verb, VERBS)}", file=sys.stderr)
        raise SystemExit(2)
    # Imported by name: nothing but the verb is loaded, and its classes can be pickled for worker processes.
    name = f"kernelsearch.{verb}"
    package = importlib.util.find_spec(name)
    folder = package is not None and package.submodule_search_locations is not None
    console.run(importlib.import_module(f"{name}.__main__" if folder else name).main, arguments[1:])


if __name__ == "__main__":
    main()
