"""The mutants of tools/mutants.py: one change each, and only the tests that execute the line."""

import ast

from tools import mutants


def every_mutation(tree):
    return [mutants.mutation(tree, number) for number in range(len(mutants.places(tree)))]


def test_every_operator_and_number_is_changed_once():
    tree = ast.parse("def f(x):\n    return x + 2 if x < 1 and not x else -x\n")
    changed = [(list(lines), change, ast.unparse(module)) for lines, change, module in every_mutation(tree)]
    assert {lines[0] for lines, _, _ in changed} == {2}
    assert sorted(change for _, change, _ in changed) == sorted([
        "x + 2 -> x - 2", "2 -> 3", "x < 1 -> x <= 1", "1 -> 2", "x < 1 and (not x) -> x < 1 or not x", "-x -> +x"
    ])  # fmt: skip
    assert len({module for _, _, module in changed}) == 6 and ast.unparse(tree) not in {module for _, _, module in changed}


def test_the_sample_depends_on_the_seed_alone():
    first, again, other = (mutants.sample(20, seed, ["learning"]) for seed in (1, 1, 2))
    assert first == again != other
    assert all(mutant.file.parts[:2] == ("kernelsearch", "learning") for mutant in first)


def test_a_mutant_runs_the_tests_of_its_line_and_none_is_left_out(tmp_path, monkeypatch):
    """Two functions with one test each, of which one does not look at the result."""
    (tmp_path / "kernelsearch").mkdir()
    (tmp_path / "kernelsearch" / "__init__.py").touch()
    (tmp_path / "kernelsearch" / "sums.py").write_text(
        "def add(a, b):\n    return a + b\n\n\ndef twice(a):\n    return a * 2\n\n\ndef unused(a):\n    return a - 1\n"
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sums.py").write_text(
        "from kernelsearch.sums import add, twice\n\n\ndef test_add():\n    assert add(1, 2) == 3\n\n\n"
        "def test_twice():\n    twice(3)\n\n\ndef test_wrong():\n    assert add(1, 1) == 3\n"
    )
    monkeypatch.setitem(mutants.PACKAGES, "sums", ("tests",))
    tests = mutants.Tests(tmp_path, ["sums"])
    assert tests.broken == {"tests/test_sums.py::test_wrong"}
    file = (tmp_path / "kernelsearch" / "sums.py").relative_to(tmp_path)
    outcomes = {}
    for lines, change, module in every_mutation(ast.parse((tmp_path / file).read_text())):
        mutant = mutants.Mutant("sums", file, lines, change, ast.unparse(module))
        if change in ("a + b -> a - b", "a * 2 -> a / 2", "a - 1 -> a + 1"):
            outcomes[change] = (tests.covering(mutant), tests.outcome(mutant, 60.0))
    assert outcomes == {
        "a + b -> a - b": (["tests/test_sums.py::test_add"], "killed"),
        "a * 2 -> a / 2": (["tests/test_sums.py::test_twice"], "survived"),
        "a - 1 -> a + 1": ([], "not covered"),
    }
