import os

import numpy as np
import pytest

from kernelsearch.core.errors import InputError
from kernelsearch.learning.folds import assign_folds
from kernelsearch.tuning.folds import choose
from kernelsearch.tuning.journal import Journal


def test_held_out_by_hand():
    # Setting 0 is best on topics 0 and 1, setting 1 on topics 2 and 3; each fold is judged by the other's favourite.
    values = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.9, 0.9]])
    choice = choose(values, [0, 0, 1, 1])
    assert [fold.chosen for fold in choice.folds] == [1, 0]
    assert choice.held_out.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert (choice.best, choice.best_mean) == (0, 0.5)
    assert [fold.training_mean for fold in choice.folds] == [0.9, 1.0]


def test_the_first_of_equals_is_chosen():
    assert choose(np.ones((3, 4)), [0, 1, 0, 1]).best == 0


def test_a_topic_has_no_say_in_its_own_estimate():
    values = np.random.default_rng(0).uniform(size=(20, 30))
    folds = assign_folds(30, 5, 0)
    before = choose(values, folds)
    changed = values.copy()
    changed[:, folds == 2] = 1 - changed[:, folds == 2]
    assert choose(changed, folds).folds[2].chosen == before.folds[2].chosen


def test_results_survive_and_a_cut_line_is_dropped(tmp_path):
    path = tmp_path / "new" / "r.jsonl"
    with Journal(path, "id", ["a", "b"]) as journal:
        journal.add({"klsa.z": 1}, np.array([0.1, 1 / 3]))
        journal.add({"klsa.z": 2, "b": 0.5}, np.array([0.2, 0.4]))
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with Journal(path, "id", ["a", "b"]) as journal:
        assert {name: values.tolist() for name, values in journal.values.items()} == {'{"klsa.z": 1}': [0.1, 1 / 3]}
        journal.add({"b": 0.5, "klsa.z": 2}, np.array([0.2, 0.4]))
    with Journal(path, "id", ["a", "b"]) as journal:
        assert len(journal.values) == 2 and journal.values['{"b": 0.5, "klsa.z": 2}'].tolist() == [0.2, 0.4]
    path.write_bytes(whole[:5])  # killed while writing the very first line
    with Journal(path, "id", ["a", "b"]) as journal:
        assert journal.values == {}


def test_another_tunings_results_are_refused(tmp_path):
    with Journal(tmp_path / "r", "id", ["a"]):
        pass
    with pytest.raises(InputError, match="r: results of another tuning"), Journal(tmp_path / "r", "other", ["a"]):
        pass
    (tmp_path / "r").write_text("precious text\n")
    with pytest.raises(InputError, match="r: line 1, column 1: not valid JSON"), Journal(tmp_path / "r", "id", ["a"]):
        pass
    assert (tmp_path / "r").read_text() == "precious text\n"
    (tmp_path / "r").write_text("precious text without a line break")
    with pytest.raises(InputError, match="r: line 1: not a tuning result"), Journal(tmp_path / "r", "id", ["a"]):
        pass
    assert (tmp_path / "r").read_text() == "precious text without a line break"


@pytest.mark.parametrize("value", ["NaN", "1" + "0" * 400])
def test_results_that_are_no_numbers_are_refused(tmp_path, value):
    with Journal(tmp_path / "r", "id", ["a"]) as journal:
        journal.add({"b": 1}, np.array([0.5]))
    (tmp_path / "r").write_text((tmp_path / "r").read_text().replace("0.5", value))
    with pytest.raises(InputError, match="r: line 2: not a tuning result"), Journal(tmp_path / "r", "id", ["a"]):
        pass


def test_a_pipe_for_results_is_refused(tmp_path):
    os.mkfifo(tmp_path / "r")
    with pytest.raises(InputError, match="r: is not a file"), Journal(tmp_path / "r", "id", ["a"]):
        pass


def test_a_line_that_the_disk_took_in_part_is_an_error(tmp_path, monkeypatch):
    with Journal(tmp_path / "r", "id", ["a"]) as journal:
        monkeypatch.setattr(os, "write", lambda _, line: len(line) - 1)
        with pytest.raises(InputError, match=r"r: cannot be written .No space left on device"):
            journal.add({"b": 1}, np.array([0.5]))
