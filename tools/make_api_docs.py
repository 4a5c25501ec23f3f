"""Writes docs/api.md from docstrings: `python -m tools.make_api_docs`. Sources are read, not imported: no extra is needed."""

from __future__ import annotations

import argparse
import ast
import inspect
from collections.abc import Callable
from pathlib import Path

from tools import ROOT

OUTPUT = ROOT / "docs" / "api.md"

#: Heading, module, and what of it is public; methods without a docstring of their own are listed by their signature.
PAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Opening and searching", "kernelsearch", ("open",)),
    ("", "kernelsearch.api.index", ("Index",)),
    ("", "kernelsearch.api.index_files", ("IndexFiles",)),
    ("Results", "kernelsearch.api.results", ("Results", "Hit")),
    ("Evaluating and tuning", "kernelsearch.evaluate", ("evaluate",)),
    ("", "kernelsearch.api.evaluating", ("Measured",)),
    ("", "kernelsearch.tune", ("tune",)),
    ("", "kernelsearch.api.tune", ("Tuned",)),
    ("Running topics", "kernelsearch.api.topics", ("run_topics", "Topic", "TopicList")),
    ("", "kernelsearch.api.pipeline", ("Pipeline",)),
    ("", "kernelsearch.engines.processes", ("ProcessEngine",)),
    ("Building an index", "kernelsearch", ("build",)),
    ("", "kernelsearch.api.build", ("build_index", "BuildSettings")),
    ("Changing documents", "kernelsearch.api.updating", ("update_index", "Updated")),
    ("Explanations", "kernelsearch.rerankers.explanations", ("Explanation", "Contribution")),
    ("Pyserini", "kernelsearch.integrations.pyserini", ("KernelSearcher", "Document")),
    ("", "kernelsearch.integrations.hits", ("KernelReranker",)),
    (
        "PyTerrier",
        "kernelsearch.integrations.pyterrier",
        ("Retriever", "KernelTransformer", "transformer_class", "Fusion"),
    ),
    ("", "kernelsearch.integrations.pyterrier_base", ("IndexTransformer",)),
    ("", "kernelsearch.integrations.pyterrier_expansion", ("Expansion",)),
    ("", "kernelsearch.integrations.pyterrier_text", ("Text", "Indexer")),
    ("", "kernelsearch.integrations.pyterrier_fused", ("FusedRetriever", "FusedFeatures")),
    ("The rerankers library", "kernelsearch.integrations.rerankers_lib", ("KernelRanker",)),
    ("Writing a method", "kernelsearch.rerankers.base", ("Reranker", "TrainingData")),
    ("", "kernelsearch.core.options", ("Option",)),
    ("", "kernelsearch.core.types", ("Query", "Candidates")),
    ("Writing a kernel", "kernelsearch.kernels.algebra", ("Kernel",)),
    ("", "kernelsearch.kernels.documents", ("Custom",)),
    ("", "kernelsearch.kernels.registry", ("kernel", "register")),
    (
        "Errors",
        "kernelsearch.core.errors",
        ("KernelSearchError", "InputError", "OptionError", "JavaError", "IndexProblem", "ArtefactError"),
    ),
)

INTRODUCTION = """# Python API

Generated from the docstrings by `tools/make_api_docs.py`; change those, not this page. [The tour](tour.md) shows how the parts
work together. Every method's own options are on its page and in `python -m kernelsearch.search --help`.

## Stability

Versions follow [semantic versioning](https://semver.org). Public are:

- the names in `kernelsearch.__all__` and `kernelsearch.api.__all__`;
- the classes and functions on this page;
- the commands `python -m kernelsearch.VERB` with their flags, config files and exit codes, and the names of methods;
- the HTTP API under `/v1`.

While the version is 0.x, a minor release (0.2 to 0.3) may change them, with a note in CHANGELOG.md; a patch release (0.2.0 to
0.2.1) does not. Everything else may change in any release: other modules, names that begin with an underscore, texts of
messages, and the format of saved artefacts, which carry a version and are refused with a message when it has changed.
"""


def page(render: Callable[[str, ast.ClassDef | ast.FunctionDef], str] | None = None) -> str:
    """The whole page; `render` makes the text of a class or function of a module."""
    render = render or entry
    parts = [INTRODUCTION]
    for heading, module, names in PAGES:
        if heading:
            parts.append(f"## {heading}\n")
        source = source_of(module)
        result = {node.name: node for node in ast.parse(source.read_text(encoding="utf-8")).body if isinstance(node, _NAMED)}
        for name in names:
            if name not in result:
                raise SystemExit(f"{source}: has no {name}")
            parts.append(render(module, result[name]))
    return "\n".join(parts)


def directive(module: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    """The same for mkdocstrings, which makes the entry of `node` in `module` when the site is built."""
    return f"::: {module}.{node.name}\n"


_NAMED = (ast.ClassDef, ast.FunctionDef)


def source_of(module: str) -> Path:
    """The file of a `module` or package."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def entry(module: str, node: ast.ClassDef | ast.FunctionDef) -> str:
    """The text about one class or function, `node`, of `module`."""
    if isinstance(node, ast.FunctionDef):
        # `kernelsearch.tune` is a function and the module that it is in.
        name = module if module.endswith(f".{node.name}") else f"{module}.{node.name}"
        return f"### `{name}`\n\n```text\n{signature(node)}\n```\n\n{text_of(node)}\n"
    initial = constructor(module, node)
    shown = signature(initial, node.name) if initial else f"{node.name}({', '.join(fields_of(node))})"
    parts = [f"### `{module}.{node.name}`\n\n```text\n{shown}\n```\n\n{text_of(node)}\n"]
    for part in node.body:
        if not isinstance(part, ast.FunctionDef) or part.name.startswith("_") or _is(part, "overload", "setter"):
            continue
        if _is(part, "property", "cached_property"):
            parts.append(f"- **`{part.name}`**{one_line(part)}")
        else:
            parts.append(f"- **`{signature(part)}`**{one_line(part)}")
    return "\n".join(parts) + "\n"


def constructor(module: str, node: ast.ClassDef) -> ast.FunctionDef | None:
    """The `__init__` of the class `node` of `module`, or that of its bases in the package; None where there is none."""
    own = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    if own is not None or fields_of(node):
        return own
    content = ast.parse(source_of(module).read_text(encoding="utf-8")).body
    places = {part.name: module for part in content if isinstance(part, ast.ClassDef)}
    for part in content:
        if isinstance(part, ast.ImportFrom) and (part.module or "").startswith("kernelsearch."):
            places |= {alias.name: part.module or "" for alias in part.names}
    for name in [ast.unparse(base).partition("[")[0] for base in node.bases]:
        if name in places:
            classes = ast.parse(source_of(places[name]).read_text(encoding="utf-8")).body
            base = next(part for part in classes if isinstance(part, ast.ClassDef) and part.name == name)
            if (inherited := constructor(places[name], base)) is not None:
                return inherited
    return None


def fields_of(node: ast.ClassDef) -> list[str]:
    """The fields of the dataclass or named tuple `node`, as its constructor takes them."""
    return [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part)]


def signature(node: ast.FunctionDef, name: str = "") -> str:
    """Name (or `name`), parameters and result of the function `node`; `self` and `cls` are left out."""
    arguments = ast.unparse(node.args)
    for own in ("self, /, ", "self, ", "cls, ", "self", "cls"):
        if arguments.startswith(own):
            arguments = arguments.removeprefix(own)
            break
    result = f" -> {ast.unparse(node.returns)}" if node.returns and not name and ast.unparse(node.returns) != "None" else ""
    return f"{name or node.name}({arguments}){result}"


def text_of(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The docstring of `node`; examples in it become code."""
    return fence_examples(inspect.cleandoc(ast.get_docstring(node) or ""))


def fence_examples(text: str) -> str:
    """The docstring `text`, in which examples are blocks of code."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.lstrip().startswith(">>>"):
            lines = [line.replace("  # doctest: +SKIP", "") for line in paragraph.splitlines()]
            paragraph = "```text\n" + "\n".join(lines) + "\n```"
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def one_line(node: ast.FunctionDef) -> str:
    """The docstring of `node` as one paragraph that follows a name."""
    text = " ".join((ast.get_docstring(node) or "").split())
    return f": {text}" if text else ""


def _is(node: ast.FunctionDef, *decorators: str) -> bool:
    return any(ast.unparse(decorator).split(".")[-1] in decorators for decorator in node.decorator_list)


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    OUTPUT.write_text(page(), encoding="utf-8")
    print(f"{OUTPUT}: written")


if __name__ == "__main__":
    main()
