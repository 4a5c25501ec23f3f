"""Markdown, one document per file."""

from __future__ import annotations

import re
from pathlib import Path

from kernelsearch.core.reading import lines
from kernelsearch.trec.formats import Format, Records


def read_markdown(path: Path, encoding: str) -> Records:
    """The Markdown file `path` in `encoding`, with its marks; the title is the first heading.

    A YAML front matter is left out, but for its title.
    """
    body = [line for _, line in lines(path, encoding)]
    title = ""
    if body and body[0].strip() == "---" and "---" in (rest := [line.strip() for line in body[1:]]):
        end = rest.index("---")
        matches = (re.match(r"title:\s*(.+)", line) for line in rest[:end])
        title = next((match[1].strip("\"' ") for match in matches if match), "")
        body = body[end + 2 :]
    fenced = False
    for number, line in enumerate(body):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        if title or fenced:
            continue
        if match := re.match(r" {0,3}#{1,6}\s+(.+?)\s*#*\s*$", line):
            title = match[1]
        elif line.strip() and number + 1 < len(body) and re.fullmatch(r" {0,3}(=+|-+)\s*", body[number + 1]):
            title = line.strip()
    yield "", {"title": title, "contents": "\n".join(body).strip()}


FORMAT = Format("markdown", read_markdown, suffixes=(".md", ".markdown"), page=True)
