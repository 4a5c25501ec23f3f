"""Reading and writing topics, relevance judgements, runs and documents."""

from kernelsearch.trec.qrels import read_qrels
from kernelsearch.trec.runs import read_run, write_run
from kernelsearch.trec.topics import read_topics

__all__ = ["read_qrels", "read_run", "read_topics", "write_run"]
