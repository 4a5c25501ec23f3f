"""The pins of constraints/: all have hashes, and with them everything is installed that the package needs."""

from importlib import metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools import ROOT, freeze
from tools.hashed_requirements import read_hashes, read_pins, requirements

CONSTRAINTS = ROOT / "constraints"


@pytest.mark.parametrize("name", [name for name, (_, hashed) in freeze.ENVIRONMENTS.items() if hashed])
def test_every_pin_has_hashes(name):
    pins, hashes = read_pins(CONSTRAINTS / f"{name}.txt"), read_hashes()
    lines = requirements(pins, hashes)
    assert len(lines) == len(pins) > 100
    assert all(len(digest) == 64 for pin in pins for digest in hashes[pin])
    uvloop = next(line for line in lines if line.startswith("uvloop=="))
    assert "; sys_platform != 'win32' --hash=sha256:" in uvloop


def test_a_pin_without_hashes_is_refused():
    assert requirements(["a==1"], {"a==1": ["ff"]}) == ["a==1 --hash=sha256:ff"]
    with pytest.raises(SystemExit, match=r"no hashes of b==2; run make freeze"):
        requirements(["a==1", "b==2"], {"a==1": ["ff"]})


def name_of_environment() -> str:
    """The constraints that this environment was made with."""
    pyserini = f"pyserini=={metadata.version('pyserini')}"
    return next(name for name in ("default", "lucene10") if pyserini in read_pins(CONSTRAINTS / f"{name}.txt"))


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_all_dependencies_are_pinned_for_every_python(python):
    """Found by a walk over the dependencies that the installed packages declare, with the markers of another Python."""
    if name_of_environment() == "lucene10" and python == "3.11":
        pytest.skip("the newest pyserini needs Python 3.12")
    pinned = {canonicalize_name(pin.partition("==")[0]) for pin in read_pins(CONSTRAINTS / f"{name_of_environment()}.txt")}
    place = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    todo, seen, missing = [("kernelsearch", "dev")], set(), set()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for text in metadata.requires(name) or ():
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({**place, "extra": extra}):
                continue
            result = canonicalize_name(needed.name)
            if result not in pinned and result != "kernelsearch":
                missing.add(f"{name} needs {text}")
                continue
            todo += [(result, more) for more in ("", *needed.extras)]
    assert len(seen) > 100 and not missing


def test_pinned_versions_are_for_every_release_of_the_oldest_python():
    """Debian 12 has Python 3.11.2, for which a package that needs 3.11.5 can't be installed."""
    oldest = "3.12.0" if name_of_environment() == "lucene10" else "3.11.0"
    pinned = {canonicalize_name(pin.partition("==")[0]) for pin in read_pins(CONSTRAINTS / f"{name_of_environment()}.txt")}
    needed = {
        f"{installed.name} {installed.version}": installed.metadata.get("Requires-Python")
        for installed in metadata.distributions()
        if canonicalize_name(installed.name) in pinned
    }
    assert len(needed) > 100
    assert [name for name, text in needed.items() if text and not SpecifierSet(text).contains(oldest)] == []


PAGE = """<html><a href="../files/pack-1.0-cp312-cp312-linux_x86_64.whl#sha256=aa">x</a>
<a href="https://example.org/pack-1.0.tar.gz#sha256=bb" data-requires-python="&gt;=3">x</a>
<a href="pack-1.0-cp310-cp310-linux_x86_64.whl#sha256=cc">x</a> <a href="pack-1.0-cp39-abi3-linux_x86_64.whl#sha256=dd">x</a>
<a href="pack-1.0.1-py3-none-any.whl#sha256=ee">x</a> <a href="other_pack-1.0-py3-none-any.whl#sha256=ff">x</a>
<a href="pack-1.0-py2.py3-none-any.whl#sha256=11">x</a> <a href="pack-1.0-cp313-cp313t-linux_x86_64.whl#sha256=22">x</a>
<a href="pack-1.0.egg#sha256=33">x</a> <a href="pack-1.0-py3-none-any.whl#md5=44">x</a></html>"""


def test_hashes_are_those_of_the_version_for_a_python_that_is_supported():
    assert freeze.file_hashes(PAGE, "Pack", "1.0") == ["11", "aa", "bb", "dd"]
