"""What mkdocs.yml uses: notebooks become pages, and examples of docstrings code."""

from __future__ import annotations

import re
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import notebooks


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each notebook to the `files` of the site; `config` is that of MkDocs."""
    for path in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text = notebooks.markdown(notebooks.read(path), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The `markdown` of a `page`, with links to the pages of notebooks."""
    return markdown if page.file.generated_by else re.sub(r"(\]\((?:\.\./)?notebooks/[\w-]+)\.ipynb\)", r"\1.md)", markdown)


def fence_examples(text: str) -> str:
    """The docstring `text`, in which examples are blocks of code."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        if paragraph.lstrip().startswith(">>>"):
            lines = [line.replace("  # doctest: +SKIP", "") for line in paragraph.splitlines()]
            paragraph = "```text\n" + "\n".join(lines) + "\n```"
        paragraphs.append(paragraph)
    return "\n\n".join(paragraphs)


def remarks_first(text: str) -> str:
    """The docstring `text` with the paragraphs below its parameters above them: griffe reads them as parameters."""
    head, title, tail = text.partition("\nParameters\n----------\n")
    if not title:
        return text
    parameters, *remarks = tail.split("\n\n")
    sections = next((place for place, remark in enumerate(remarks) if re.search(r"^-{4,}$", remark, re.M)), len(remarks))
    above = [head.rstrip("\n"), *remarks[:sections]]
    return "\n\n".join(above) + f"\n{title}" + "\n\n".join([parameters, *remarks[sections:]])


class FencedExamples(griffe.Extension):
    """Shows examples of docstrings as code, which Markdown would take for quotations, and remarks as text."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring of `obj`, a class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = remarks_first(fence_examples(obj.docstring.value))
