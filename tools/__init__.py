"""What maintainers run from the root of a checkout, each with `python -m tools.PACKAGE.MODULE --help`.

`bench` measures speed and memory, `reproduce` regenerates the pages of docs/reproductions, `data` writes collections and logs.

Parameters that mean the same in all modules: `collections`, the folder of the real collections; `name`, the name of one;
`scratch`, a folder for the files of a run, reused where they exist; `index`, the opened index, or its folder where it is a
path; `topics`, {qid: text}; `qrels`, {qid: {docid: grade}}; `folder` and `path`, what is read or written; `count`, how many to
draw or make; `seed` and `rng`, the source of random numbers.
"""

import os
from pathlib import Path

#: The root of the checkout.
ROOT = Path(__file__).resolve().parent.parent
#: The folder of the real collections.
COLLECTIONS = Path(os.environ.get("KERNELSEARCH_COLLECTIONS") or ROOT.parent / "shared" / "collections")


def environment(**variables: str) -> dict[str, str]:
    """Environment variables for a child process that imports `tools` and `kernelsearch` from this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}
