"""Every tool imports what the library has, and answers --help."""

import importlib
import os
import pkgutil
import sys

import pytest

import tools

MODULES = [module.name for module in pkgutil.walk_packages(tools.__path__, "tools.") if not module.ispkg]
#: Modules that other tools import.
HELPERS = {
    "tools.bench.load",
    *(f"tools.bench.speed.{name}" for name in ("building", "collection", "evaluating", "measuring", "page", "searching")),
    *(f"tools.bench.speed.{name}" for name in ("service", "vectors")),
    "tools.bench.process_memory",
    *(f"tools.data.{name}" for name in ("altered_topics", "datasets", "machine_text", "made_topics", "source_code")),
    "tools.reproduce.auto_gates",
    "tools.reproduce.auto_tables",
    "tools.reproduce.claims",
    *(f"tools.reproduce.fusion_{name}" for name in ("caution", "conditions", "conditions_page")),
    "tools.reproduce.fusion_few",
    "tools.reproduce.fusion_page",
    "tools.reproduce.fusion_tables",
    "tools.papers.mslm_report",
    "tools.reproduce.pages",
    "tools.papers.pert_page",
    "tools.reproduce.vectors_learned",
    "tools.site",
}


@pytest.mark.parametrize("name", MODULES)
def test_help(name, monkeypatch, capsys):
    # Some benchmarks set the number of threads when they are imported.
    monkeypatch.setattr(os, "environ", os.environ.copy())
    try:
        tool = importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name not in ("kernelsearch.papers", "tools.papers"):
            raise
        pytest.skip("needs papers/, which is not here")
    if name in HELPERS:
        assert not hasattr(tool, "main")
        return
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as ended:
        tool.main()
    assert not ended.value.code
    assert "usage:" in capsys.readouterr().out
