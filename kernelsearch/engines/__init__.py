"""The engine that options ask for: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.options import Settings, option
from kernelsearch.engines.processes import ProcessEngine


@dataclass(frozen=True, kw_only=True)
class EngineSettings(Settings):
    """Options for where work is done."""

    engine: str = option(
        "local",
        "where parts of the work are done: on this machine, or by the workers of a Dask cluster",
        choices=("local", "dask"),
    )
    scheduler: str | None = option(
        None, "with --engine dask: address of a scheduler, such as tcp://HOST:8786; default: a cluster on this machine"
    )
    workers: int | None = option(
        None, "with --engine dask: worker processes of the cluster on this machine; default: one per core", low=1
    )


def make_engine(settings: EngineSettings, processes: int = 1) -> Engine:
    """The engine that the options `settings` ask for; on this machine, one with `processes` processes.

    Raises OptionError for options that contradict each other.
    """
    if settings.engine == "local":
        for name in ("scheduler", "workers"):
            if getattr(settings, name) is not None:
                raise OptionError("has no effect without ", Flag("engine", value="dask"), option=Flag(name))
        return ProcessEngine(processes) if processes > 1 else LocalEngine()
    from kernelsearch.engines.dask import DaskEngine

    if settings.scheduler is not None and settings.workers is not None:
        raise OptionError("a cluster that runs already (", Flag("scheduler"), ") has its own", option=Flag("workers"))
    return DaskEngine(settings.scheduler, settings.workers)
