"""Which vectors and which file of query vectors the options name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelsearch.vectors.settings import VectorSettings


@pytest.mark.parametrize(
    ("options", "default", "files"),
    [
        ({}, None, {"m": None}),
        ({"queries": "q.npz"}, None, {"m": "q.npz", "n": "q.npz"}),
        ({"queries": "m=q.npz"}, "m", {"m": "q.npz", "n": None}),
        ({"queries": ("m=q.npz",), "name": "n"}, "n", {"m": "q.npz", "n": None}),
        ({"queries": ("m=q.npz", "n=r.npz")}, None, {"m": "q.npz", "n": "r.npz"}),
        ({"queries": ("m=q.npz", "r.npz")}, None, {"m": "q.npz", "n": "r.npz"}),
        ({"queries": "data/year=1968/q.npz"}, None, {"m": "data/year=1968/q.npz"}),
        ({"queries": "m=data/year=1968/q.npz"}, "m", {"m": "data/year=1968/q.npz", "n": None}),
    ],
)
def test_names_and_files(options, default, files):
    settings = VectorSettings(**options)
    assert settings.default_name == default
    assert {name: settings.queries_of(name) for name in files} == files
    absolute = settings.absolute()
    assert absolute.default_name == default
    expected = {name: None if file is None else str(Path(file).absolute()) for name, file in files.items()}
    assert {name: absolute.queries_of(name) for name in files} == expected
