"""The mutants of tools/mutants.py: one change each, and only the tests that execute the line."""

import ast

from tools import mutants


def every_mutation(tree):
    return [mutants.mutation(tree, number) for number in range(len(mutants.places(tree)))]


def test_every_operator_and_number_is_changed_once():
    tree = ast.parse("def f(x):\n    return x + 2 if x < 1 and not x else -x\n")
    changed = [(list(lines), change, ast.unparse(module)) for lines, _, change, module in every_mutation(tree)]
    assert {lines[0] for lines, *_ in changed} == {2}
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
    for lines, column, change, module in every_mutation(ast.parse((tmp_path / file).read_text())):
        mutant = mutants.Mutant("sums", file, lines, column, change, ast.unparse(module))
        if change in ("a + b -> a - b", "a * 2 -> a / 2", "a - 1 -> a + 1"):
            outcomes[change] = (tests.covering(mutant), tests.outcome(mutant, 60.0))
    assert outcomes == {
        "a + b -> a - b": (["tests/test_sums.py::test_add"], "killed"),
        "a * 2 -> a / 2": (["tests/test_sums.py::test_twice"], "survived"),
        "a - 1 -> a + 1": ([], "not covered"),
    }
    # A second run reads the results of the unchanged tests instead of running them, and restores what a killed run changed.
    source = (tmp_path / file).read_text()
    (tmp_path / file).rename(tmp_path / f"{file}.unchanged")
    (tmp_path / file).write_text("a mutant")
    monkeypatch.setattr(mutants.Tests, "_run_unchanged", None)
    assert mutants.Tests(tmp_path, ["sums"]).broken == tests.broken
    assert (tmp_path / file).read_text() == source and len(list((tmp_path / "kernelsearch").glob("*sums*"))) == 1


def test_a_run_continues_where_it_was_stopped(tmp_path, monkeypatch):
    """Three of four outcomes are in the journal: the fourth mutant is run, and a further run starts none."""
    (tmp_path / "checkout" / "kernelsearch" / "sums").mkdir(parents=True)
    (tmp_path / "checkout" / "kernelsearch" / "sums" / "a.py").write_text("def f(x):\n    return x + 1 < 3\n")
    started = []

    class Tests:
        broken = frozenset()

        def __init__(self, checkout, packages, budget):
            pass

        def outcome(self, mutant, limit):
            started.append(mutant.change)
            return "killed" if "+" in mutant.change else "survived"

    monkeypatch.setattr(mutants, "Tests", Tests)
    counts = [dict(mutants._run(tmp_path, 9, 0, ["sums"], 1.0, 60.0)["sums"])]
    assert len(started) == 4
    lines = (tmp_path / "outcomes.jsonl").read_text().splitlines()
    (tmp_path / "outcomes.jsonl").write_text("".join(f"{line}\n" for line in lines[:3]))
    counts += [dict(mutants._run(tmp_path, 9, 0, ["sums"], 1.0, 60.0)["sums"]) for _ in range(2)]
    assert len(started) == 5
    assert counts == [{"killed": 2, "survived": 2}] * 3
