"""The results of tuning on disk: an append-only file with one line per setting, so that a killed run can continue."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.files import not_writable, refuse_special
from kernelsearch.core.reading import parse_json, read_bytes
from kernelsearch.tuning.space import Setting, key

KIND, VERSION = "kernelsearch tuning", 1
#: How every file of results begins.
HEAD = f'{{"kind": "{KIND}"'.encode()
#: Largest file of results, in bytes.
LARGEST = 1 << 30


class Journal:
    """The results so far, `values[key(setting)]` of shape (topics,), and the file that `add` appends to. A context manager.

    The first line identifies the tuning (`identity`, a hash of everything that the values depend on) and its topics (`qids`); a
    file of another tuning is refused with InputError. An incomplete last line, of a killed run, is dropped. `path` is the file.
    """

    def __init__(self, path: str | Path, identity: str, qids: list[str]) -> None:
        self.path = Path(path)
        self.values: dict[str, NDArray[np.float64]] = {}
        self._head: dict[str, Any] = {"kind": KIND, "version": VERSION, "identity": identity, "topics": qids}
        self._descriptor = -1

    def __enter__(self) -> Journal:
        whole = self._read()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            os.ftruncate(self._descriptor, whole)
        except OSError as problem:
            raise not_writable(self.path, problem) from None
        if not whole:
            self._append(self._head)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._descriptor)

    def _read(self) -> int:
        """Reads the results of the file and returns the length of its complete lines in bytes."""
        if not os.path.lexists(self.path):
            return 0
        refuse_special(self.path)
        data = read_bytes(self.path, LARGEST)
        whole = data.rfind(b"\n") + 1
        if not whole and data[: len(HEAD)] != HEAD[: len(data)]:
            raise InputError("line 1: not a tuning result; remove the file or name another", path=self.path)
        lines = data[:whole].split(b"\n")[:-1]
        for number, line in enumerate(lines, 1):
            record = parse_json(line, f"{self.path}: line {number}")
            try:
                if number == 1:
                    self._check(record)
                else:
                    values = np.array(record["values"], dtype=np.float64)
                    if values.shape != (len(self._head["topics"]),) or not np.isfinite(values).all():
                        raise ValueError
                    self.values[key(record["setting"])] = values
            except (ValueError, KeyError, TypeError, OverflowError):
                raise InputError("not a tuning result; remove the file or name another", path=self.path, line=number) from None
        return whole

    def _check(self, record: dict[str, Any]) -> None:
        if record["kind"] != KIND or record["version"] != VERSION:
            raise ValueError
        if record["identity"] != self._head["identity"] or record["topics"] != self._head["topics"]:
            raise InputError(
                "results of another tuning (other index, topics, judgements, measure, flags or versions); "
                "remove the file or name another with ",
                Flag("results"),
                path=self.path,
            )

    def add(self, setting: Setting, values: NDArray[np.float64]) -> None:
        """Appends a setting's values, shape (topics,); they are on disk when this returns."""
        self.values[key(setting)] = np.asarray(values, dtype=np.float64)
        self._append({"setting": setting, "values": np.asarray(values).tolist()})

    def _append(self, record: dict[str, Any]) -> None:
        try:
            line = json.dumps(record, ensure_ascii=False).encode() + b"\n"
            if os.write(self._descriptor, line) < len(line):  # a disk that has become full takes a part of it
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except OSError as problem:
            raise not_writable(self.path, problem) from None
