"""A folder of BEIR: the documents are its corpus.jsonl."""

from __future__ import annotations

from kernelsearch.trec.formats import Format
from kernelsearch.trec.formats.jsonl import read_jsonl

FORMAT = Format("beir", read_jsonl, corpus="corpus.jsonl")
