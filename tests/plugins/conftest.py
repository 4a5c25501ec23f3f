"""A plugin of the test's own."""

import sys

import pytest

from kernelsearch.kernels import registry as kernels
from kernelsearch.rerankers import registry as methods


@pytest.fixture
def plugin(monkeypatch, tmp_path):
    """Installs the code of a module `faulty_module` with an entry point `faulty` that names its `Thing`."""

    def install(group: str, code: str, name: str = "Thing") -> None:
        described = tmp_path / "faulty_package-1.0.dist-info"
        described.mkdir()
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-package\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text(f"[{group}]\nfaulty = faulty_module:{name}\n")
        (tmp_path / "faulty_module.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        kernels.plugins.cache_clear()
        methods.methods.cache_clear()

    yield install
    monkeypatch.undo()
    sys.modules.pop("faulty_module", None)
    kernels.plugins.cache_clear()
    methods.methods.cache_clear()
