"""The memory limit: parsing, derived limits, and peak memory of building data that don't fit."""

import subprocess
import sys

import numpy as np
import pytest

from kernelsearch.core.errors import OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.neighbours import Neighbours
from kernelsearch.rerankers.klsa.basis import scratch_array
from tests.conftest import ROOT


@pytest.mark.parametrize(("text", "size"), [("4G", 4 << 30), ("1.5g", 3 << 29), ("2048M", 2 << 30), ("1TB", 1 << 40)])
def test_sizes_are_read(text, size):
    assert MemoryLimit.parse(text).bytes == size


def test_no_limit_is_no_limit():
    assert MemoryLimit.parse(None) is None


@pytest.mark.parametrize(("text", "complaint"), [("four", "not a size"), ("4", "not a size"), ("100M", "below 1024M")])
def test_what_is_no_size_or_too_small_is_refused(text, complaint):
    with pytest.raises(OptionError, match=f"memory_limit: .*{complaint}"):
        MemoryLimit.parse(text)


def test_the_parts_stay_within_the_whole():
    limit = MemoryLimit.parse("2G")
    assert limit.features + limit.export_block < limit.free < limit.bytes
    assert limit.java_heap == "1024m"
    assert 60 * limit.pairs < limit.free
    assert 60 * 2 * 10 * limit.tokens(10) < limit.free


def test_vectors_that_do_not_fit_stand_in_a_file_that_vanishes(tmp_path):
    limit = MemoryLimit(1 << 30)
    small, large = ((10, 10), (1000, 90_000))
    assert not isinstance(scratch_array(tmp_path, small, np.float32, limit), np.memmap)
    array = scratch_array(tmp_path, large, np.float32, limit)
    assert isinstance(array, np.memmap)
    assert array.shape == large
    assert not array[0, :5].any()
    array[:] = 1
    assert list(tmp_path.iterdir()) == []


def test_vectors_that_do_not_fit_are_quantised():
    limit = MemoryLimit((400 << 20) + 20_000_000)
    vectors = np.random.default_rng(0).standard_normal((60_000, 48)).astype(np.float32)
    built = Neighbours.build(vectors, clusters=16, limit=limit)
    assert built.kind == "ivf-sq8"
    assert Neighbours.build(vectors, clusters=16, limit=MemoryLimit(1 << 30)).kind == "ivf"


#: A child limits its own memory to what it has after importing plus so many megabytes, then works on more data than that.
PROGRAM = """
import resource, sys
import numpy as np
{imports}

def now():
    for line in open("/proc/self/status"):
        if line.startswith("VmData"):
            return int(line.split()[1]) * 1024

{prepare}
resource.setrlimit(resource.RLIMIT_DATA, (now() + {spare} * 1_000_000,) * 2)
{work}
"""

FEATURES = {
    "imports": "from kernelsearch.kernels.spectral import RowBlocks, decompose",
    "prepare": """
def make(start, end):
    return np.random.default_rng(start).random((end - start, 400), dtype=np.float32)

rows = RowBlocks(make, (200_000, 400), size=10_000, memory=float(sys.argv[1]), dtype=np.float32)
decompose(RowBlocks(make, (1000, 400), dtype=np.float32), 3, solver="randomised")
""",
    "work": 'print(decompose(rows, 3, solver="randomised", tolerance=0.5).energy)',
}
GRAPH = {
    "imports": "from kernelsearch.kernels.semantic.graph import cooccurrence_graph",
    "prepare": """
class Texts:
    lengths = np.full(3000, 100, dtype=np.int32)
    live_docs = np.arange(3000, dtype=np.int32)
    words = np.sort(np.random.default_rng(1).integers(3000, size=(3000, 100), dtype=np.int32), axis=1)
    cf = np.bincount(words.ravel(), minlength=3000)
    df = np.full(3000, 1, dtype=np.int32)

    def positions(self, docs):
        places = np.tile(np.random.default_rng(2).permutation(100).astype(np.int32), len(docs))
        return np.arange(len(docs) + 1) * 100, self.words[docs].ravel(), places

texts = Texts()
""",
    "work": "print(cooccurrence_graph(texts, max_pairs=int(sys.argv[1]), block=int(sys.argv[1]) // 20).edges)",
}
EXPORT = {
    "imports": """
import tempfile
from kernelsearch.forward import ForwardIndex, Statistics, write_forward
from kernelsearch.core.postings import Scan
""",
    "prepare": """
DOCUMENTS, WORDS = 100_000, 200

class Postings:
    def scan(self):
        sizes = np.full(DOCUMENTS, WORDS, np.int32)
        flat = np.full(WORDS, DOCUMENTS)
        data = np.frombuffer(b"".join(b"%03d" % word for word in range(WORDS)), np.uint8)
        live = np.ones(DOCUMENTS, bool)
        return Scan(data, np.full(WORDS, 3, np.int32), flat.astype(np.int32), flat, sizes, sizes, sizes.astype(np.uint8), live)

    def rows(self, start, end, scan, positions):
        words = np.tile(np.arange(WORDS, dtype=np.int32), end - start)
        return words, np.ones_like(words), words

    def docids(self, start, end):
        return np.frombuffer(b"".join(b"%06d" % doc for doc in range(start, end)), np.uint8), np.full(end - start, 6, np.int32)

place = tempfile.mkdtemp()
""",
    "work": """
size = DOCUMENTS * WORDS
write_forward(place, Postings(), field="contents", statistics=Statistics(DOCUMENTS, size, size), positions=True, fingerprint="",
              block_bytes=int(sys.argv[1]))
print(len(ForwardIndex(place).indices) / size)
""",
}
FAISS = {
    "imports": """
import tempfile
import faiss
from kernelsearch.core.memory_limit import BASE, MemoryLimit
from kernelsearch.neighbours import Neighbours
""",
    "prepare": """
faiss.omp_set_num_threads(1)
with tempfile.NamedTemporaryFile() as file:
    vectors = np.memmap(file, np.float32, "w+", shape=(400_000, 200))
block = np.random.default_rng(0).standard_normal((10_000, 200), dtype=np.float32)
for start in range(0, len(vectors), len(block)):
    vectors[start : start + len(block)] = np.roll(block, start // len(block), axis=1)
Neighbours.build(vectors[:1000], "ivf", clusters=4)
""",
    "work": """
built = Neighbours.build(vectors, clusters=16, block=5000, limit=MemoryLimit(BASE + int(sys.argv[1])))
print(len(built) / len(vectors))
""",
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("program", "bounded", "unbounded", "spare"),
    [
        (FEATURES, 5e7, 1e9, 200),
        (GRAPH, 500_000, 20_000_000, 100),
        (EXPORT, 4_000_000, 1 << 30, 200),
        (FAISS, 200_000_000, 1 << 30, 220),
    ],
    ids=["features", "graph", "export", "faiss"],
)
def test_what_does_not_fit_is_done_in_parts(program, bounded, unbounded, spare):
    """320 MB of features, six million pairs of words, 240 MB of postings, 320 MB of vectors: the limit is kept, and
    exceeded without it."""
    source = PROGRAM.format(spare=spare, **program)
    runs = [
        subprocess.run(
            [sys.executable, "-c", source, str(size)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        for size in (bounded, unbounded)
    ]
    assert runs[0].returncode == 0, runs[0].stderr
    assert float(runs[0].stdout) > 0.5
    assert runs[1].returncode != 0
    assert "MemoryError" in runs[1].stderr or "bad_alloc" in runs[1].stderr
