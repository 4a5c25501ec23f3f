"""What mkdocs.yml uses: notebooks become pages, and the page of the Python API gets its entries from mkdocstrings."""

from __future__ import annotations

import re
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools import make_api_docs, notebooks


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each notebook to the `files` of the site; `config` is that of MkDocs."""
    for path in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text = notebooks.markdown(notebooks.read(path), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The `markdown` of a `page`, with links to the pages of notebooks.

    Entries of api.md, which are made for reading in a checkout, become directives of mkdocstrings.
    """
    if page.file.src_uri == "api.md":
        return make_api_docs.page(make_api_docs.directive)
    return markdown if page.file.generated_by else re.sub(r"(\]\((?:\.\./)?notebooks/[\w-]+)\.ipynb\)", r"\1.md)", markdown)


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
            obj.docstring.value = remarks_first(make_api_docs.fence_examples(obj.docstring.value))
