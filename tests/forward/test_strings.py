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
