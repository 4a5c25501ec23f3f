"""The engine that options ask for: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.core.errors import Flag, OptionError, quote
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.options import Settings, option
from kernelsearch.engines.processes import ProcessEngine


@dataclass(frozen=True, kw_only=True)
class EngineSettings(Settings):
    """Options for where work is done."""

    engine: str = option(
        "local",
        "where parts of the work are done: local (on this machine), dask (a Dask cluster on this machine, a worker per core), "
        "dask:N (with N workers), or the address of a Dask scheduler, such as tcp://HOST:8786",
    )


def make_engine(settings: EngineSettings, processes: int = 1) -> Engine:
    """The engine that the option `engine` of `settings` asks for; on this machine, one with `processes` processes.

    Raises OptionError for a value that names none.
    """
    if settings.engine == "local":
        return ProcessEngine(processes) if processes > 1 else LocalEngine()
    name, _, rest = settings.engine.partition(":")
    workers = int(rest) if rest.isdecimal() and len(rest) < 6 else 0
    local = name == "dask" and (workers > 0 or settings.engine == "dask")
    if not local and "://" not in settings.engine:
        raise OptionError(
            f"{quote(settings.engine)} is not local, dask, dask:N or the address of a scheduler, such as tcp://HOST:8786",
            option=Flag("engine"),
        )
    from kernelsearch.engines.dask import DaskEngine

    return DaskEngine(workers=workers or None) if local else DaskEngine(settings.engine)
