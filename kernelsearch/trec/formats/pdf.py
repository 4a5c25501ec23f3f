"""PDF, one document per file."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.installed import install_command
from kernelsearch.core.reading import open_file, report_damage
from kernelsearch.trec.formats import Format, Records


def read_pdf(path: Path, encoding: str) -> Records:
    """The text of the PDF `path`, page by page; the title is that of its metadata. Needs pypdf.

    Scanned pages have no text. `encoding` isn't used. Raises InputError for a damaged or protected file.
    """
    try:
        import pypdf
        import pypdf.errors
    except ImportError:
        raise OptionError(
            f"a PDF; {install_command('pdf')} to read it, or name the kind of files to index with ", Flag("format"), path=path
        ) from None
    # pypdf logs every irregularity of a file that it can read all the same.
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    # A damaged file makes pypdf fail in many ways, with any of Python's exceptions.
    with report_damage(path, "PDF", Exception), open_file(path) as stream:
        try:
            reader: Any = pypdf.PdfReader(stream)
            if reader.is_encrypted and not reader.decrypt(""):
                raise InputError("a PDF that is protected by a password", path=path)
            text = "\n".join(page.extract_text() for page in reader.pages)
            title = (reader.metadata.title if reader.metadata else None) or ""
        except pypdf.errors.DependencyError as problem:
            raise InputError(f"an encrypted PDF ({problem})", path=path) from None
    # Lone surrogates come from broken font tables; JSON can't hold them.
    yield "", {"title": str(title).strip(), "contents": text.encode("utf-8", "replace").decode("utf-8")}


FORMAT = Format("pdf", read_pdf, suffixes=(".pdf",), magic=b"%PDF", page=True)
