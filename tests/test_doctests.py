"""The examples in docstrings. Only modules that have some are imported, so that missing optional packages don't matter."""

import doctest
import importlib

import pytest

from tests.conftest import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "kernelsearch").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


def test_examples_are_found():
    assert "kernelsearch" in MODULES and "kernelsearch.core.options" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0, f"{outcome.failed} of {outcome.attempted} examples fail; the report is in the captured output"
