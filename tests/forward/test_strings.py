"""String tables: which strings consist of allowed bytes only."""

import numpy as np

from kernelsearch.forward.index import StringTable


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


def test_parts_of_a_table_and_many_strings_at_once():
    words = ["", *(f"{'x' * (number % 5 + 1)}{number}é" for number in range(1, 80))]
    raw = [word.encode() for word in words]
    table = StringTable(np.frombuffer(b"".join(raw), dtype=np.uint8), np.cumsum([len(word) for word in raw]))
    for start, end in ((0, 80), (0, 1), (3, 3), (7, 30), (79, 80)):
        data, sizes = table.slice(start, end)
        assert data.tobytes() == b"".join(raw[start:end]) and sizes.tolist() == [len(word) for word in raw[start:end]]
    for numbers in (range(80), range(31), range(32), range(33), [79] * 40, [0] * 40, [5]):
        assert table.take(list(numbers)) == [words[number] for number in numbers]
    assert table.all_raw() == raw and [table.raw(number) for number in range(80)] == raw and table[-80] == words[0]
