"""What maintainers run from the root of a checkout, each with `python -m tools.PACKAGE.MODULE --help`.

`bench` measures speed and memory, `reproduce` regenerates the pages of docs/reproductions, `data` writes collections and logs.
"""

import os
from pathlib import Path

#: The root of the checkout.
ROOT = Path(__file__).resolve().parent.parent


def environment(**variables: str) -> dict[str, str]:
    """Environment variables for a child process that imports `tools` and `kernelsearch` from this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **variables}
