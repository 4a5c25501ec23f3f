"""Where work in parts is done: in this process, or on the workers of a Dask cluster."""

from kernelsearch.engines.base import OPTIONS, Engine, Held, LocalEngine, keep_open, make_engine, opened_once

__all__ = ["OPTIONS", "Engine", "Held", "LocalEngine", "keep_open", "make_engine", "opened_once"]
