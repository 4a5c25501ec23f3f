"""Kernels between stored fields: values by hand, missing values, kinds found in a sample."""

import numpy as np
import pytest

from kernelsearch.similarity import fields


def test_categories_lists_and_strings_by_hand():
    assert fields.same_category("maps", ["maps", "games", None]).tolist() == [1, 0, 0]
    assert fields.same_category(None, [None]).tolist() == [0]
    assert fields.shared_items(["gps", "net"], [["NET"], ["gps", "net"], [], "gps", None]).tolist() == [0.5, 1, 0, 0.5, 0]
    same, near, far, none = fields.like_strings("City Maps", ["city  maps", "City Map", "Chess", None])
    assert same == pytest.approx(1) and 0.5 < near < 1 and far == 0 and none == 0


def test_numbers_and_dates_by_rbf():
    values = fields.near_numbers(3, [3, 5, "7", None, "many"], scale=2.0)
    assert values == pytest.approx([1, np.exp(-0.5), np.exp(-2), 0, 0])
    assert not fields.near_numbers(None, [1, 2]).any()
    assert fields.near_numbers(2, [2, 2]).tolist() == [1, 1]  # no deviation: equal numbers are still equal
    days = fields.near_dates("2017-03-01", ["2017-03-01", "2017-03-11", "2017-03", "soon"], scale=10.0)
    assert days == pytest.approx([1, np.exp(-0.5), 1, 0])


def test_rbf_is_a_kernel():
    """Symmetric with a fixed scale, positive semi-definite, 1 on the diagonal."""
    values = [1.0, 2.5, 2.6, 9.0]
    gram = np.array([fields.near_numbers(value, values, scale=1.5) for value in values])
    assert gram == pytest.approx(gram.T) and np.linalg.eigvalsh(gram).min() > -1e-12 and np.diag(gram) == pytest.approx(1)


def test_kinds_are_found_in_a_sample():
    sample = [
        {
            "id": number,
            "title": "x",
            "genre": ["maps", "games"][number % 2],
            "rating": number / 2,
            "tags": ["a"],
            "name": f"App {number}",
            "released": f"2017-01-0{number + 1}",
            "story": "a long text " * 5,
            "mixed": number if number else "no",
        }
        for number in range(6)
    ]
    assert fields.field_kinds(sample) == {
        "genre": "category", "rating": "number", "tags": "list", "name": "string", "released": "date",
    }  # fmt: skip


def test_numbers_beyond_a_year_are_no_dates_and_beyond_floats_no_numbers():
    """ISBNs look like years of ten digits; a JSON integer may have any number of digits."""
    assert fields.field_kinds([{"isbn": f"97803064{number}"} for number in (10, 11, 12)]) == {"isbn": "string"}
    assert not fields.near_dates("9780306406", ["2017-03-01"]).any()
    assert not fields.near_numbers(10**400, [1, 2]).any()
    assert fields.near_numbers(1e200, [1e200, -1e200, 10**400]) == pytest.approx([1, np.exp(-2), 0])
