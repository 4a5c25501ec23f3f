"""JVM options for a process that builds one index and ends.

A quarter to a third of the CPU time of a build is that of Java's optimising compiler (C2), which a short build doesn't earn
back. The figures behind the limits are in docs/measurements/bridge.md, section Building an index.
"""

from __future__ import annotations

from pathlib import Path

#: Bytes of documents up to which C2 takes more CPU time than its code saves.
SMALL = 24 << 20
#: The compiler C1 alone, without the counters that C2 needs.
QUICK = ("-XX:TieredStopAtLevel=1",)
#: C2 compiles what is called and repeated most: ten to thirty times as often as by default. It inlines less into each method.
SELECTIVE = (
    "-XX:Tier4InvocationThreshold=60000",
    "-XX:Tier4MinInvocationThreshold=20000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=600000",
    "-XX:MaxInlineLevel=9",
    "-XX:FreqInlineSize=200",
)
#: Where Linux says whether a process may ask for huge pages.
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def options(size: int) -> list[str]:
    """The options for a build from `size` bytes of documents."""
    return [*(QUICK if size <= SMALL else SELECTIVE), *_huge_pages()]


def _huge_pages() -> list[str]:
    """Huge pages where the system gives them to those who ask, with which a build of 100,000 documents took less CPU time.

    Java would print a warning where there are none, and refuse the option on other systems than Linux.
    """
    try:
        return ["-XX:+UseTransparentHugePages"] if "[madvise]" in HUGE_PAGES.read_text(encoding="ascii") else []
    except (OSError, ValueError):
        return []
