"""The bundled collection: documents about household repairs, written for this package."""

from importlib.resources import files
from pathlib import Path

#: The folder with corpus.jsonl, topics.tsv, qrels.txt, variants.tsv and clicks.jsonl.
BUNDLED_FOLDER = Path(str(files("kernelsearch"))) / "demo" / "data"
