"""Results are computed once per object, and dropped with it."""

import gc

from kernelsearch.core.caching import once_per_object


class Index:
    def __init__(self, size):
        self.size = size


def test_each_object_has_its_own_result_as_long_as_it_exists():
    computed = []

    @once_per_object
    def doubled(index):
        computed.append(index.size)
        return 2 * index.size

    first, second = Index(1), Index(2)
    assert [doubled(first), doubled(second), doubled(first)] == [2, 4, 2]
    assert computed == [1, 2]
    assert doubled.__name__ == "doubled"
    del first
    gc.collect()
    assert doubled(Index(1)) == 2  # at the address of the first, perhaps
    assert computed == [1, 2, 1]


def test_a_result_of_none_is_cached_too():
    computed = []

    @once_per_object
    def nothing(index):
        computed.append(index)

    index = Index(1)
    assert nothing(index) is nothing(index) is None
    assert computed == [index]
