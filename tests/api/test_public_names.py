"""The public names of the package and of kernelsearch.api."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kernelsearch
from kernelsearch import api


@pytest.mark.parametrize("package", [kernelsearch, api])
def test_every_public_name_exists_and_an_unknown_one_is_an_attribute_error(package):
    for name in package.__all__:
        assert getattr(package, name) is not None, name
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nonsense'"):
        _ = package.nonsense


def test_the_names_of_the_api_are_those_of_its_modules():
    from kernelsearch.api.index import Index
    from kernelsearch.api.topics import run_topics

    assert api.Index is kernelsearch.Index is Index and api.run_topics is run_topics


def test_importing_the_package_imports_neither_numpy_nor_java():
    code = "import sys, kernelsearch, kernelsearch.api; print(*{'numpy', 'jnius', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []
