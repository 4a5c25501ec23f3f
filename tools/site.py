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
    """Adds a page for each notebook."""
    for path in sorted(notebooks.FOLDER.glob("*.ipynb")):
        text = notebooks.markdown(notebooks.read(path), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page's Markdown, with links to the pages of notebooks.

    Entries of api.md, which are made for reading in a checkout, become directives of mkdocstrings.
    """
    if page.file.src_uri == "api.md":
        return make_api_docs.page(make_api_docs.directive)
    return markdown if page.file.generated_by else re.sub(r"(\]\((?:\.\./)?notebooks/[\w-]+)\.ipynb\)", r"\1.md)", markdown)


class FencedExamples(griffe.Extension):
    """Shows examples of docstrings as code; Markdown would take `>>>` for quotations."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Changes the docstring of a class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = make_api_docs.fence_examples(obj.docstring.value)
