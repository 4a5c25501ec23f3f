"""The options of index, and what they say of the input."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from kernelsearch.api.build import BuildSettings
from kernelsearch.api.staging import Reader
from kernelsearch.cli.inputs import load_documents
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import option
from kernelsearch.engines import EngineSettings
from kernelsearch.trec.collection_files import FORMATS
from kernelsearch.trec.documents import parse_columns

#: Options, by Python name, that say how documents are indexed.
_INDEXING = ("language", "positions", "docvectors", "contents", "raw", "optimize", "forward")
#: Options that belong to a build: an index that is changed keeps them.
_BUILD_ONLY = ("input", "shards", "fields", *_INDEXING, "force", "engine")
#: Options that say how documents are read and indexed.
_INPUT_ONLY = (*_INDEXING, "format", "encoding", "columns", "number_documents", "join_titles", "skip_unreadable")

#: Options of the short help.
COMMON = (
    *("input", "index", "append", "delete", "format", "columns", "number-documents", "encoding", "language", "fields"),
    *("no-join-titles", "shards", "memory-limit", "force"),
)


@dataclass(frozen=True, kw_only=True)
class IndexSettings(EngineSettings, BuildSettings):
    """Options of index."""

    input: str | None = option(None, "documents to index: a file, a folder, or irds:NAME")
    index: str | tuple[str, ...] | None = option(
        None, "folder of the index to build, or of one that exists; repeatable for the latter", repeat=True
    )
    append: str | None = option(
        None, "documents to add to the index, as --input takes them; a document replaces the one of the same id"
    )
    delete: str | None = option(None, "file with the ids of documents to delete from the index, one per line")
    format: str | None = option(None, "format of the input; guessed if not given", choices=tuple(FORMATS))
    encoding: str = option("utf-8", "encoding of the input files, such as windows-1252")
    columns: tuple[str, ...] = option(
        (), "columns or keys of the input that hold id, contents and title, such as id=number,contents=body,title=headline"
    )
    number_documents: bool = option(
        False, "number the documents 1, 2, ... in the order of the input, for documents without ids"
    )
    join_titles: bool = option(True, "join the title to the contents that are searched")
    skip_unreadable: bool = option(
        False, "leave out .txt, .md, .html and .pdf files of a folder that cannot be read, and name them"
    )

    def reader(self, source: str) -> Reader:
        """A function that reads the documents of `source`, `--input` or `--append`, from their beginning."""
        return partial(
            load_documents,
            source,
            self.format,
            self.encoding,
            columns=parse_columns(self.columns),
            join_titles=self.join_titles,
            skip_unreadable=self.skip_unreadable,
            number_documents=self.number_documents,
        )

    def check_export(self) -> None:
        """Raises OptionError for options that have no effect where the forward index of an index that exists is written."""
        if self.shards:
            raise OptionError("--shards: only a new index can be split; --input names its documents")
        for name in self._changed(_INPUT_ONLY):
            flag = f"no-{name}" if getattr(self, name) is False else name
            raise OptionError(f"--{flag.replace('_', '-')}: has no effect without --input, which names documents to index")

    def check_update(self) -> None:
        """Raises OptionError for options that have no effect on an index that is changed, not built."""
        flag = "--append" if self.append is not None else "--delete"
        if not isinstance(self.index, str):
            raise OptionError("--index: one index is changed at a time")
        if self.number_documents:
            message = (
                f"has no effect with {flag}" if self.append is None else "would replace the documents 1, 2, ... of the index"
            )
            raise OptionError(f"--number-documents: {message}; documents to add need ids of their own")
        for name in self._changed(_BUILD_ONLY):
            raise OptionError(f"--{name}: has no effect with {flag}; the index keeps the settings that it was built with")

    def _changed(self, names: tuple[str, ...]) -> list[str]:
        """Those of the options `names` that don't have their default."""
        defaults = type(self)()
        return [name for name in names if getattr(self, name) != getattr(defaults, name)]
