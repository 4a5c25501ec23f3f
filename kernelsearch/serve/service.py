"""The state behind the routes: opened indexes, worker threads, metrics.

An index that is replaced while it is served is opened again, and requests go to the new state once it is ready. Every request
is answered from one state alone; the old one is closed when its last request is done.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from kernelsearch.api.python_documents import reader_of
from kernelsearch.api.updating import Updated, update_index
from kernelsearch.core.errors import BusyError, IndexReplaced, KernelSearchError
from kernelsearch.serve import answers
from kernelsearch.serve.answers import NotFound
from kernelsearch.serve.catalogue import Retired, ServedIndex, describe_methods
from kernelsearch.serve.gate import Refused
from kernelsearch.serve.impressions import ClientRates, Impressions
from kernelsearch.serve.metrics import Metrics
from kernelsearch.serve.openapi import describe_option
from kernelsearch.serve.parameters import Parameters, first_stage_options
from kernelsearch.serve.settings import ServiceSettings
from kernelsearch.serve.workers import TimedOut, Workers

JSON_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
#: Seconds between two looks at whether an index or a click log has been replaced.
WATCH_SECONDS = 1.0
#: How often garbage is collected after a replaced state was closed, WATCH_SECONDS apart: what ends at that moment may still
#: refer to the state.
COLLECTIONS = 2
#: Seconds to wait for an index that is being moved: between two renames its folder is missing.
MOVING_SECONDS = 0.1
#: How often a request is tried while its index is replaced.
ATTEMPTS = 3
logger = logging.getLogger("kernelsearch.serve")


class Service:
    """Served indexes by name, and how requests are computed with them.

    Attributes: `settings`; `workers`, the threads; `metrics`; `impressions`, which signs lists; `click_rates`, the clients'
    rates of clicks; `methods`, the answer of /v1/methods.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.impressions = Impressions()
        self.click_rates = ClientRates(settings.limits.clicks_per_minute)
        self._specs = {spec.name: spec for spec in settings.indexes}
        self._served = {name: self._open(name) for name in self._specs}
        self._refreshing = {name: threading.Lock() for name in self._specs}
        self._updating = {name: threading.Lock() for name in self._specs}
        self._old: list[ServedIndex] = []  # states that were replaced while requests used them
        self._not_opened: dict[str, str] = {}  # last reason why a replaced index could not be opened
        limits = settings.limits
        self.workers = Workers(limits.threads, limits.waiting, limits.seconds)
        self.metrics = Metrics(lambda: self.workers.busy)
        self.methods = {
            "api": "v1",
            "first_stage": [describe_option(option) for option in first_stage_options()],
            "methods": describe_methods(),
            "limits": asdict(limits),
        }

    @property
    def names(self) -> list[str]:
        """The names of the indexes."""
        return list(self._specs)

    def index(self, name: str) -> ServedIndex:
        """The present state of an index by its name; raises NotFound."""
        if name not in self._served:
            raise NotFound(f"index: {name[:100]!r} is not one of {', '.join(self._served)}")
        return self._served[name]

    async def answer(self, name: str, function: Callable[..., Any], *args: Any) -> bytes:
        """`function(served, *args)` for an index as JSON; it is computed and encoded in a worker thread."""
        self.index(name)
        return await self.workers.run(self._encode, name, function, args)

    async def search(self, name: str, request: Parameters) -> bytes:
        """The answer to a search as JSON. Concurrent requests that need the first stage alone share calls to Lucene."""
        group = answers.first_stage_only(self.index(name), request)
        if group is not None:
            try:
                return await self.workers.run_together(_encode_batch, group, request)
            except (Retired, IndexReplaced):
                pass  # the index was replaced while the request waited
        return await self.answer(name, answers.search, request)

    def call(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """`function(served, *args)` for an index, again where it failed because the index or its click log was replaced.

        Errors name the index as clients know it instead of by its folder on this machine.
        """
        for attempt in range(ATTEMPTS):
            served = self.index(name)
            try:
                with served.in_use():
                    return function(served, *args)
            except Retired:
                continue
            except (NotFound, Refused, BusyError, TimedOut):
                raise
            except Exception as problem:
                # Another thread may open the new state while this one waits to do so: compared after refresh, too.
                if attempt + 1 < ATTEMPTS and (self.refresh(name) or self._served[name] is not served):
                    continue
                if attempt + 1 < ATTEMPTS and isinstance(problem, IndexReplaced):
                    time.sleep(MOVING_SECONDS)
                    continue
                if isinstance(problem, KernelSearchError):
                    served.make_public(problem)
                raise
        raise IndexReplaced(f"{name}: the index was replaced {ATTEMPTS} times during the request")

    def refresh(self, name: str) -> bool:
        """Opens an index again where it has been replaced, and its click log; returns whether something was opened.

        Where the new state cannot be opened, the old one is served further, with a message in the server's log.
        """
        with self._refreshing[name]:
            served = self._served[name]
            try:
                if not served.index.replaced():
                    return served.clicks.refresh()
                new = self._open(name)
                new.warm_up()
            except (KernelSearchError, OSError) as problem:
                if self._not_opened.get(name) != str(problem):
                    logger.warning("%s: the old state is served further; the new one can't be opened (%s)", name, problem)
                    self._not_opened[name] = str(problem)
                return False
            self._not_opened.pop(name, None)
            self._served[name] = new
        self._old.append(served)
        served.retire()
        logger.info("%s: the index has been replaced; the new state is served", name)
        return True

    def update(self, name: str, add: list[dict[str, Any]], delete: list[str]) -> Updated:
        """Adds and deletes documents of the index `name` and serves its new state; raises Refused while another change runs.

        `add` are documents as `kernelsearch.build` takes them, `delete` are docids.
        """
        served = self.index(name)
        if not self._updating[name].acquire(blocking=False):
            raise Refused(409, f"{name}: another change of the documents is running; try again later")
        try:
            updated = update_index(Path(served.index.path), reader_of(add, True) if add else None, delete)
        except KernelSearchError as problem:
            served.make_public(problem)
            raise
        finally:
            self._updating[name].release()
        self.refresh(name)
        return updated

    async def watch(self) -> None:
        """Refreshes all indexes from time to time, until cancelled.

        States that were replaced and are not in use any more are collected at once: they keep their files mapped, and Python's
        own collection of objects that refer to each other may come much later.
        """
        loop = asyncio.get_running_loop()
        collections = 0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for name in self.names:
                try:
                    await loop.run_in_executor(None, self.refresh, name)
                except Exception:
                    logger.exception("%s: unexpected error while looking for a new state", name)
            if self._drop_closed():
                collections = COLLECTIONS
            if collections:
                collections -= 1
                await loop.run_in_executor(None, gc.collect)

    def _drop_closed(self) -> bool:
        """Forgets the replaced states that no request uses any more; returns whether there were any."""
        closed = [old for old in self._old if old.closed]
        for old in closed:
            self._old.remove(old)
        return bool(closed)

    def _open(self, name: str) -> ServedIndex:
        return ServedIndex(self._specs[name], self.settings, self.impressions)

    def _encode(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
        return orjson.dumps(self.call(name, function, *args), option=JSON_OPTIONS)


def _encode_batch(group: answers.FirstStageOnly, requests: list[Parameters]) -> list[bytes]:
    with group.served.in_use():
        try:
            batch = answers.search_batch(group, requests)
        except KernelSearchError as problem:
            group.served.make_public(problem)
            raise
        return [orjson.dumps(answer, option=JSON_OPTIONS) for answer in batch]


def describe_indexes(service: Service) -> bytes:
    """The answer of /v1/indexes as JSON: the indexes of `service`."""
    described = [service.call(name, ServedIndex.describe) for name in service.names]
    return orjson.dumps({"api": "v1", "indexes": described}, option=JSON_OPTIONS)
