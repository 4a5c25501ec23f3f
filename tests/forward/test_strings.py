"""String tables: which strings consist of allowed bytes only."""

import numpy as np

from kernelsearch.forward.strings import StringTable


def test_made_of_checks_bytes_and_length():
    words = [b"", b"a", b"abc", b"a1", b"abcdef", b"1a"]
    table = StringTable(np.frombuffer(b"".join(words), dtype=np.uint8), np.cumsum([len(word) for word in words]))
    letters = np.zeros(256, dtype=bool)
    letters[list(b"abcdef")] = True
    assert table.made_of(letters).tolist() == [True, True, True, False, True, False]
    assert table.made_of(letters, 1, 3).tolist() == [False, True, True, False, False, False]


def test_a_string_is_found_in_a_sorted_table_or_gives_minus_one():
    words = sorted(["ant", "bee", "cat", "cats", "élan"], key=str.encode)
    table = StringTable(
        np.frombuffer("".join(words).encode(), dtype=np.uint8), np.cumsum([len(word.encode()) for word in words])
    )
    assert [table.find_sorted(word) for word in words] == [0, 1, 2, 3, 4]
    assert [table.find_sorted(word) for word in ("", "aa", "ca", "zebra", "élans")] == [-1] * 5
