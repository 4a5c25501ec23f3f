"""The bundled collection: household repair, written for this package. `DATA` is its folder."""

from pathlib import Path

DATA = Path(__file__).parent / "data"
