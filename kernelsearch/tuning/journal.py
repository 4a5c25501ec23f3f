"""Results on disk while tuning runs: one line a setting, only ever added to, so that a killed run can go on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kernelsearch.core.errors import InputError
from kernelsearch.tuning.space import Setting, key

KIND, VERSION = "kernelsearch tuning", 1


class Journal:
    """The results so far, `values[key(setting)]` (topics,), and a file that grows by `add`.

    The first line says what was tuned (`identity`, a hash of everything that the values depend on); a file of another tuning is
    refused. A last line that was cut short by a kill is dropped.
    """

    def __init__(self, path: str | Path, identity: str, qids: list[str]) -> None:
        self.path = Path(path)
        self.values: dict[str, np.ndarray] = {}
        self._head: dict[str, Any] = {"kind": KIND, "version": VERSION, "identity": identity, "topics": qids}
        self._descriptor = -1

    def __enter__(self) -> Journal:
        whole = self._read()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            os.ftruncate(self._descriptor, whole)
        except OSError as problem:
            raise InputError(f"{self.path}: cannot be written ({problem.strerror or problem})") from None
        if not whole:
            self._append(self._head)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def _read(self) -> int:
        """Takes in what is there and returns the length of its whole lines in bytes."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as problem:
            raise InputError(f"{self.path}: cannot be read ({problem.strerror or problem})") from None
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if number == 1:
                    self._check(record)
                else:
                    values = np.array(record["values"], dtype=np.float64)
                    if values.shape != (len(self._head["topics"]),):
                        raise ValueError
                    self.values[key(record["setting"])] = values
            except (ValueError, KeyError, TypeError):
                raise InputError(f"{self.path}: line {number}: not a tuning result; remove the file or name another") from None
        return whole

    def _check(self, record: dict[str, Any]) -> None:
        if record["kind"] != KIND or record["version"] != VERSION:
            raise ValueError
        if record["identity"] != self._head["identity"] or record["topics"] != self._head["topics"]:
            raise InputError(
                f"{self.path}: results of another tuning (other index, topics, judgements, measure, flags or versions); "
                "remove the file or name another with --results"
            )

    def add(self, setting: Setting, values: np.ndarray) -> None:
        """Adds one setting's values; they are on disk when this returns."""
        self.values[key(setting)] = np.asarray(values, dtype=np.float64)
        self._append({"setting": setting, "values": np.asarray(values).tolist()})

    def _append(self, record: dict[str, Any]) -> None:
        try:
            os.write(self._descriptor, json.dumps(record, ensure_ascii=False).encode() + b"\n")
            os.fsync(self._descriptor)
        except OSError as problem:
            raise InputError(f"{self.path}: cannot be written ({problem.strerror or problem})") from None
