"""Runs what README.md and docs/*.md show.

Blocks fenced as ```bash and ```python run, in the page's order, in a folder of the page's own that has the bundled collection's
index in indexes/demo; a page's Python blocks share their names. ```python pyserini and ```python pyterrier run in those
environments only, ```bash cluster with the tests that start a Dask cluster. Anything else (```text, indented code) is for
reading.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelsearch
from kernelsearch.clicks.importing import import_log
from kernelsearch.kernels import registry as kernel_registry
from kernelsearch.rerankers import registry
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO, ROOT
from tools import notebooks

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(bash|python)[ ]*(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\b\d+\.\d+\b")
ASSIGNMENT = re.compile(r"([A-Z_]+)=\$\((.*)\)")
#: Commands beside our own that can run in a shell of their own: they set nothing that later lines need.
PLAIN = re.compile(r"(cmp|head) [^|<>;&`]*|printf '[^']*' > [\w.]+")


def blocks(page: Path, place: str = "") -> list[tuple[str, str, int]]:
    """(language, text, line number) of the page's blocks for an environment."""
    text = page.read_text(encoding="utf-8")
    return [(block[1], block[3], text.count("\n", 0, block.start()) + 2) for block in BLOCK.finditer(text) if block[2] == place]


def pages(place: str = "") -> list[Path]:
    return [page for page in PAGES if blocks(page, place)]


@pytest.fixture(scope="module")
def fitted(demo_index, tmp_path_factory) -> Path:
    """The index of the bundled collection with what methods fit on first use, so that not every page fits it."""
    folder = shutil.copytree(demo_index.path, tmp_path_factory.mktemp("fitted") / "demo")
    kernelsearch.open(folder).search("dripping tap", rerank="auto")
    return folder


#: Pages that run verbs of kernelsearch.papers.
OF_PAPERS = ("experiments",)


@pytest.fixture
def scratch(fitted, tmp_path, monkeypatch) -> Path:
    """A folder with the index of the bundled collection, which is the working folder meanwhile."""
    shutil.copytree(fitted, tmp_path / "indexes" / "demo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(kernel_registry, "KERNELS", dict(kernel_registry.KERNELS))  # pages register kernels
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_page(page, scratch):
    if page.stem in OF_PAPERS and importlib.util.find_spec("kernelsearch.papers") is None:
        pytest.skip("runs verbs of papers/, which is not here")
    run_page(page)


@pytest.mark.parametrize("path", sorted(notebooks.FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path, scratch):
    """A notebook gives the outputs that are stored with it (`python -m tools.notebooks` stores them), up to rounding."""
    for cell, text in notebooks.run(notebooks.read(path)):
        assert NUMBER.sub("#", text) == NUMBER.sub("#", notebooks.output(cell))
        numbers = [[float(number) for number in NUMBER.findall(source)] for source in (text, notebooks.output(cell))]
        assert numbers[0] == pytest.approx(numbers[1], rel=1e-3, abs=2e-3)


def test_a_notebook_shows_its_last_value_and_stops_at_errors():
    def notebook(*sources):
        return {"cells": [{"cell_type": "code", "source": [source], "outputs": []} for source in sources]}

    shown = [text for _, text in notebooks.run(notebook("x = 2\nprint('a')\nx + 1", "x = 5", "x\nNone"))]
    assert shown == ["a\n3\n", "", ""]
    with pytest.raises(ZeroDivisionError):
        list(notebooks.run(notebook("1 / 0")))


@pytest.mark.pyserini
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the full pyserini is not installed")
@pytest.mark.parametrize("page", pages("pyserini"), ids=lambda page: page.stem)
def test_page_with_pyserini(page, scratch):
    """In a process that starts in the page's folder: Pyserini gives Java paths that count from where it was started."""
    text = "\n".join(text for _, text, _ in blocks(page, "pyserini"))
    done = subprocess.run([sys.executable, "-c", text], cwd=scratch, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.pyterrier
@pytest.mark.skipif(importlib.util.find_spec("pyterrier") is None, reason="PyTerrier is not installed")
@pytest.mark.parametrize("page", pages("pyterrier"), ids=lambda page: page.stem)
def test_page_with_pyterrier(page, scratch):
    run_page(page, "pyterrier")


@pytest.mark.cluster
@pytest.mark.parametrize("page", pages("cluster"), ids=lambda page: page.stem)
def test_page_with_a_cluster(page, scratch):
    run_page(page, "", "cluster")


def run_page(page: Path, *places: str) -> None:
    """Runs the blocks of a page for some environments, by default those for all."""
    names: dict[str, object] = {"__name__": "__main__"}
    variables: dict[str, str] = {}
    result = [block for place in places or ("",) for block in blocks(page, place)]
    for language, text, line in sorted(result, key=lambda block: block[2]):
        if language == "python":
            # The file's name and empty lines make tracebacks point at the page.
            exec(compile("\n" * (line - 1) + text, str(page), "exec", dont_inherit=True), names)
        else:
            run_shell(text, variables)


def run_shell(text: str, variables: dict[str, str]) -> None:
    """Our own commands run in this process, where Java runs already; a block with anything else in it is bash's."""
    lines = list(commands(text))
    if not all(ASSIGNMENT.fullmatch(line) or PLAIN.fullmatch(line) or is_ours(line) for line in lines):
        shell(text, variables)
        return
    for line in lines:
        if result := ASSIGNMENT.fullmatch(line):
            variables[result[1]] = shell(f"echo {result[0].partition('=')[2]}", variables).strip()
        elif PLAIN.fullmatch(line):
            shell(line, variables)
        else:
            run_verb(shlex.split(line, comments=True), variables)


def commands(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def is_ours(line: str) -> bool:
    return line.startswith("python -m kernelsearch.") and not re.search(r"[|<>;&`*]", re.sub(r"\"[^\"]*\"", "", line))


def run_verb(words: list[str], variables: dict[str, str]) -> None:
    name, arguments = words[2], words[3:]
    package = importlib.util.find_spec(name)
    assert package is not None, f"no module {name}"
    module = importlib.import_module(f"{name}.__main__" if package.submodule_search_locations else name)
    for variable, value in variables.items():
        arguments = [word.replace(f"${variable}", value) for word in arguments]
    with contextlib.suppress(BrokenPipeError):
        module.main(arguments)


def shell(text: str, variables: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{text}\n{done.stderr[-2000:]}"
    return done.stdout


def test_blocks_are_found_and_environments_told_apart(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n```bash\nls\n```\n```text\nno\n```\n```python pyterrier\nx = 1\n```\n```python\ny = 2\n```\n")
    assert blocks(page) == [("bash", "ls\n", 3), ("python", "y = 2\n", 12)]
    assert blocks(page, "pyterrier") == [("python", "x = 1\n", 9)]


def test_a_wrong_command_or_snippet_fails(tmp_path, scratch):
    from kernelsearch.core.errors import KernelSearchError

    page = tmp_path / "page.md"
    for text, problem in (
        ("```bash\npython -m kernelsearch.search --index indexes/none --query tap\n```\n", KernelSearchError),
        ("```bash\nfalse\n```\n", AssertionError),
        ("```bash\npython -m kernelsearch.search --index indexes/demo --query tap\ncmp page.md none.md\n```\n", AssertionError),
        ("```python\nassert False\n```\n", AssertionError),
        ("```bash\npython -m kernelsearch.search --no-such-flag\n```\n", SystemExit),
    ):
        page.write_text(text)
        with pytest.raises(problem):
            run_page(page)


LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The names that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        target_page = page.parent / path if path else page
        assert target_page.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(target_page), f"{page.name}: no heading {anchor} in {target_page.name}"


def test_the_examples_of_the_http_api_are_what_the_service_answers(fitted, tmp_path, monkeypatch):
    """Requests of docs/http-api.md, with the answers below them; tests/serve has clicks and changes of documents."""
    pytest.importorskip("fastapi")
    from kernelsearch.serve.catalogue import ServedIndex
    from tests.serve.conftest import make_client

    monkeypatch.setattr(ServedIndex, "warm_up", lambda _: None)  # of methods that no request names
    shutil.copytree(fitted, tmp_path / "demo")
    import_log([DEMO / "clicks.jsonl"], tmp_path / "clicks.db")
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    index = IndexSpec("demo", str(tmp_path / "demo"), topics, qrels, str(tmp_path / "clicks.db"))
    text = (ROOT / "docs" / "http-api.md").read_text(encoding="utf-8")
    requests = list(re.finditer(r"^`(GET|POST) (\S+)`", text, re.MULTILINE))
    assert len(requests) >= 12
    with make_client(ServiceSettings((index,), RequestLimits(threads=2), record_clicks=True, allow_updates=True)) as client:
        for request, end in zip(requests, [*(later.start() for later in requests[1:]), len(text)], strict=True):
            found = re.findall(r"^```json\n(.*?)^```", text[request.end() : end], re.MULTILINE | re.DOTALL)
            first, *others = (json.loads(block) for block in found)
            if request[2].endswith(("/click", "/documents")):
                continue
            given = client.get(request[2]) if request[1] == "GET" else client.post(request[2], json=first)
            assert given.status_code == 200, f"{request[0]}: {given.text}"
            assert_shows(first if request[1] == "GET" else others[0] if others else {}, given.json(), request[0])


def assert_shows(shown: object, given: object, where: str) -> None:
    """`shown` is `given` without some entries of its objects and lists; "..." stands for any text."""
    if isinstance(shown, dict):
        assert isinstance(given, dict) and shown.keys() <= given.keys(), f"{where}: {shown.keys()}"
        for name, value in shown.items():
            assert_shows(value, given[name], f"{where}: {name}")
    elif isinstance(shown, list):
        assert isinstance(given, list)
        rest = iter(given)
        for entry in shown:
            if entry != "...":
                named = [name for name in ("name", "label", "query", "docid") if isinstance(entry, dict) and name in entry]
                found = next((other for other in rest if all(other[name] == entry[name] for name in named[:1])), None)
                assert_shows(entry, found, where)
    elif isinstance(shown, float):
        assert given == pytest.approx(shown, rel=1e-4), where
    elif isinstance(shown, str) and "..." in shown:
        assert isinstance(given, str) and re.fullmatch(".*".join(map(re.escape, shown.split("..."))), given, re.DOTALL), where
    else:
        assert given == shown, where


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_stand_in_blocks_that_run(page):
    """Commands of ours and Python that is only indented, or fenced as text, would not be run."""
    text = re.sub(r"^```(bash|python).*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    left = re.findall(r"^ *(?:python -m kernelsearch\.|from kernelsearch|import kernelsearch).*$", text, re.MULTILINE)
    assert [line for line in left if not line.startswith((SERVER, *SHOWN.get(page.stem, ())))] == []


#: How lines begin that are for reading only, by page: they must come before Java starts, take hours and real collections,
#: or belong to a batch system. Each has tests of its own (lucene/test_jvm.py, reproduce, verbs).
SERVER = "python -m kernelsearch.serve"  # never ends; tests/serve and the first block of docs/serve.md start it
SHOWN: dict[str, tuple[str, ...]] = {
    "troubleshooting-java": ("from kernelsearch.lucene import",),
    "experiments": ("python -m kernelsearch.reproduce",),
    "shards": ("python -m kernelsearch.search --index indexes/large",),
    "mslm": ("python -m kernelsearch.classify",),
    "vectors": ("python -m kernelsearch.vectors --index indexes/cran", "python -m kernelsearch.search  --index indexes/cran"),
}


def test_every_parameter_on_the_api_page_is_described():
    """Its name, or a word of it, is in the docstring of the function or of its class."""
    missing = []
    for entry in re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.MULTILINE):
        module, _, name = entry.rpartition(".")
        path = ROOT.joinpath(*module.split("."))
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        content = ast.parse(source.read_text(encoding="utf-8")).body
        (node,) = (part for part in content if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name == name)
        if isinstance(node, ast.FunctionDef):
            missing += undescribed(node, "")
        else:
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            shown = [part for part in methods if part.name == "__init__" or not part.name.startswith("_")]
            missing += [parameter for part in shown for parameter in undescribed(part, ast.get_docstring(node) or "")]
    assert missing == []


@pytest.mark.parametrize("package", ["kernelsearch", "tools"])
def test_every_public_function_and_its_parameters_are_described(package):
    """As for the page of the API; a docstring may also refer to another function's ("the parameters are those of ...").

    The docstrings of a module and of its packages count for the names that they have in backquotes, that of a base class for
    its subclasses.
    """
    assert missing_descriptions(ROOT / package) == []


def test_what_is_not_described_is_found(tmp_path):
    (tmp_path / "__init__.py").write_text('"""Everywhere, `seed` is that of the random numbers."""')
    (tmp_path / "module.py").write_text(
        '"""A module in which `folder` is that of the results."""\n'
        "def bare(): pass\n"
        "def partly(path, seed, folder, depth):\n    'Reads the file `path`.'\n"
        "def same(depth):\n    'The parameters are those of `partly`.'\n"
        "def _private(path): pass\n"
        "class Base:\n    'Has a `size`; `full` says whether it is used.'\n"
        "    def __init__(self, size, colour): pass\n"
        "    def grow(self, amount):\n        'Grows.'\n"
        "    def full(self): pass\n"
        "class Child(Base):\n"
        "    def grow(self, amount): pass\n"
        "    def shrink(self): pass\n"
    )
    names = (
        "bare",
        "partly(depth)",
        "Base.__init__(colour)",
        "Base.grow(amount)",
        "Child",
        "Child.grow(amount)",
        "Child.shrink",
    )
    assert missing_descriptions(tmp_path) == [f"module.py: {name}" for name in names]


def missing_descriptions(package: Path) -> list[str]:
    """Public classes and functions of a package that have no docstring, and parameters that none describes."""
    modules = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(package.rglob("*.py"))}
    classes = {node.name: node for module in modules.values() for node in module.body if isinstance(node, ast.ClassDef)}
    missing = []
    for file, module in modules.items():
        packages = (modules.get(folder / "__init__.py") for folder in file.parents if folder.is_relative_to(package))
        texts = [ast.get_docstring(part) or "" for part in (module, *packages) if part is not None]
        common = " ".join(re.findall(r"`\w+`", " ".join(texts)))
        names: list[str] = []
        for node in module.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                names += [] if ast.get_docstring(node) or is_overload(node) else [node.name]
                names += undescribed(node, common) if ast.get_docstring(node) else []
            elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                names += [] if ast.get_docstring(node) else [node.name]
                names += [f"{node.name}.{name}" for name in missing_in_class(node, classes, common)]
        missing += [f"{file.relative_to(package)}: {name}" for name in names]
    return missing


def missing_in_class(node: ast.ClassDef, classes: dict[str, ast.ClassDef], common: str) -> list[str]:
    """The same for the methods of a class; the docstring of a class may describe a method or property, in backquotes."""
    family, names = with_bases(node, classes), []
    of_classes = " ".join(ast.get_docstring(member) or "" for member in family)
    for part in node.body:
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) and is_public_method(part):
            if is_from_elsewhere(part, family, classes) or is_overload(part):
                continue
            same = [other for member in family for other in member.body if getattr(other, "name", "") == part.name]
            own = " ".join(ast.get_docstring(other) or "" for other in same if isinstance(other, type(part))).strip()
            names += [] if own or part.name == "__init__" or f"`{part.name}`" in of_classes else [part.name]
            names += undescribed(part, f"{common} {own} {of_classes}")
    return names


def with_bases(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    """A class and its base classes of the package."""
    names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
    bases = [classes[name] for name in names if name in classes and classes[name] is not node]
    return [node, *(member for base in bases for member in with_bases(base, classes))]


def is_public_method(part: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return part.name == "__init__" or not part.name.startswith("_")


def is_from_elsewhere(
    part: ast.FunctionDef | ast.AsyncFunctionDef, family: list[ast.ClassDef], classes: dict[str, ast.ClassDef]
) -> bool:
    """Whether a method has no docstring and one of its class's bases, a protocol or of another package, declares it."""
    foreign = [base for node in family for base in node.bases if ast.unparse(base).partition("[")[0] not in classes]
    return part.name != "__init__" and not ast.get_docstring(part) and bool(foreign or "setter" in ast.unparse(part))


def is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in function.decorator_list)


def undescribed(function: ast.FunctionDef | ast.AsyncFunctionDef, text_of_class: str) -> list[str]:
    own = ast.get_docstring(function) or ""
    if is_overload(function):
        return []
    if re.search(r"parameters are (those|the same)|^As `", own):
        return []
    text = f"{own} {text_of_class}".lower()
    words = {word.rstrip("s") for word in re.findall(r"[a-z]+", text)}
    parameters = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    return [
        f"{function.name}({name})"
        for name in parameters
        if name not in ("self", "cls", "argv")  # argv: of every verb's main
        and not name.startswith("_")
        and not re.search(rf"\b{name.lower().rstrip('_')}", text)
        and not any(part.rstrip("s") in words for part in name.lower().split("_") if len(part) > 2)
    ]


#: Pages that describe the options of methods that have no page of their name.
OPTION_PAGES = {
    **dict.fromkeys(("auto", "fusion"), ("fusion", "vectors")),
    **dict.fromkeys(("rbm25-paper", "pairwise", "substitution", "clickprior"), ("papers/rbm25",)),
    "dense": ("vectors",),
    "prcl": ("pyserini",),
}


def option_pages(name: str) -> tuple[str, ...]:
    """The pages of docs/ that describe the options of a method; those of papers/ have pages of the paper's name."""
    papers = name in registry.paper_names()
    return OPTION_PAGES.get(name, (f"papers/{name.removesuffix('-paper')}" if papers else name,))


OWN_METHODS = [name for name in registry.names() if registry.method(name).reranker.startswith("kernelsearch.")]


def option_tables(page: str) -> Iterator[tuple[str, str, str]]:
    """(head of the first column, first cell, default) of the rows of a page's tables with a column of defaults."""
    for table in re.findall(r"(?:^\|.*\n)+", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()]
        if "default" in head:
            yield from ((head[0], row[0], row[head.index("default")]) for row in rows)


def documented_defaults(name: str) -> Iterator[tuple[str, str]]:
    """(option, default as text) of a method from the tables of its pages."""
    for page in option_pages(name):
        for head, cell, default in option_tables(page):
            spans = [span.split()[0] for span in re.findall(r"`([^`]+)`", cell)]
            if f"--{name}." not in head:
                spans = [span.removeprefix(f"--{name}.") for span in spans if span.startswith(f"--{name}.")]
            values = default.split(", ")
            if len(values) != len(spans):
                values = [re.split(r"[;,] ", default)[0]] * len(spans)
            yield from ((span, value.strip("`")) for span, value in zip(spans, values, strict=True))


@pytest.mark.parametrize("name", [name for name in OWN_METHODS if list(documented_defaults(name))])
def test_defaults_of_options_are_those_of_the_page(name):
    """Numbers, words, on and off; a default of None or of no values, a choice by the method, may be described in any way."""
    words = {"on": True, "off": False, "": False}
    method = registry.method(name)
    for option, text in documented_defaults(name):
        declared = [entry.default for entry in (*method.options, *method.fit_options) if entry.name == option]
        assert declared, f"--{name}.{option} is no option"
        documented = float(text) if re.fullmatch(r"\d*\.?\d+", text) else words.get(text, text)
        for default in declared:
            if default in (None, ()) or option == "features":  # a number of features, not their names
                continue
            if isinstance(default, tuple):
                assert list(default) == list(map(float, text.split(","))), f"--{name}.{option}"
            else:
                assert default == documented, f"--{name}.{option}"


@pytest.mark.parametrize("name", OWN_METHODS)
def test_every_option_of_a_method_is_on_its_page(name):
    """In a span of code: `--klsa.z`, or `z` in a table whose head has `--klsa.`."""
    texts = [(ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in option_pages(name)]
    words = {word for text in texts for span in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w-]+", span)}
    method = registry.method(name)
    missing = [option.name for option in (*method.options, *method.fit_options) if option.name not in words]
    assert missing == []


def test_costs_of_methods_are_about_those_of_the_page_on_speed():
    """`make bench` writes docs/speed.md; docs/which-method.md quotes its times of the smaller collection."""
    quoted = dict(re.findall(r"^\| `?(\w+)`? \| ([\d.]+) ms \|", (ROOT / "docs" / "which-method.md").read_text(), re.MULTILINE))
    row = re.compile(r"^\| (\w+) \| Anserini's \w+ \| 10,000 \| CPU ms per query \| ([\d.]+) \|", re.MULTILINE)
    measured = dict(row.findall((ROOT / "docs" / "speed.md").read_text(encoding="utf-8")))
    assert {"BM25", "klsa", "pert", "mslm", "auto"} <= quoted.keys() & measured.keys()
    for method, milliseconds in quoted.items():
        assert float(milliseconds) == pytest.approx(float(measured[method]), rel=0.4), method


def test_the_cost_of_a_query_is_on_one_page():
    """docs/which-method.md has it, beside the measurements; a second statement would disagree sooner or later."""
    cost = re.compile(r"\d\s(ms|milliseconds)\b|times\sthe\stime\b")
    places = {page.name for page in PAGES if cost.search(page.read_text(encoding="utf-8"))}
    assert places - {"speed.md"} == {"which-method.md"}


def test_every_page_is_in_the_site():
    """mkdocs.yml's navigation has every page of docs/, once."""
    listed = re.findall(r": ([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = [*(ROOT / "docs").rglob("*.md"), *(path.with_suffix(".md") for path in notebooks.FOLDER.glob("*.ipynb"))]
    assert sorted(listed) == sorted(page.relative_to(ROOT / "docs").as_posix() for page in pages)


@pytest.mark.site
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_is_built_without_a_warning(tmp_path):
    recipe = re.search(
        r"^docs:.*\n\t\S+=1 \.venv/bin/python (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert recipe is not None and "--strict" in recipe[1]
    command = [sys.executable, *recipe[1].split(), "--site-dir", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "which-method.html").exists()
    reference = (tmp_path / "site" / "api.html").read_text(encoding="utf-8")
    assert 'id="kernelsearch.api.index.Index.search_batch"' in reference and "&gt;&gt;&gt;" in reference
    assert "<blockquote" not in reference and "doctest" not in reference
    # Remarks below parameters are paragraphs; mkdocstrings took their first words for parameters.
    assert "<p>Returns how many vectors were stored" in reference
    notebook = (tmp_path / "site" / "notebooks" / "first-hour.html").read_text(encoding="utf-8")
    assert "364 documents with id" in notebook and (tmp_path / "site" / "notebooks" / "first-hour.ipynb").exists()


@pytest.mark.parametrize("part", ["Home", "Tutorials", "Guides", "Reference"])
def test_a_page_begins_with_what_the_reader_gets_and_a_command(part):
    """Prose below the title, then the first block of code within a screen of 30 lines; measurements are in Background."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:\n")[2]
    entries = re.split(r"^  - ", text, flags=re.MULTILINE)[1:]
    listed = next(entry for entry in entries if entry.startswith(f"{part}:"))
    names = [name for name in re.findall(r": ([\w/.-]+)\.md$", listed, re.MULTILINE) if not name.startswith("notebooks/")]
    assert names and not any("reproductions" in name or "measurements" in name for name in names)
    for name in names:
        title, _, first, *rest = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").splitlines()
        assert title.startswith("# ") and re.match(r"[A-Z`]", first) and not first.startswith("```"), name
        assert name == "api" or any(line.startswith("```") for line in rest[:27]), name


def test_the_readme_fits_two_screens_before_its_figures():
    before = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Figures")[0]
    assert before.count("\n") <= 88
