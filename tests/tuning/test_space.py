import re

import pytest

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.tuning import space
from kernelsearch.tuning.space import draws, grid, key, label, read_dimension, split


def dimension(text, methods):
    name, _, values = text.partition("=")
    owner, dot, rest = name.partition(".")
    return read_dimension(owner if dot else "", rest or name, values, methods)


def dimensions(*texts, methods=("klsa", "mslm")):
    return [dimension(text, methods) for text in texts]


def test_a_grid_is_every_combination_in_order():
    result = list(grid(dimensions("klsa.z=1,5", "b=0.4,0.75")))
    assert result == [
        {"klsa.z": 1, "b": 0.4}, {"klsa.z": 1, "b": 0.75}, {"klsa.z": 5, "b": 0.4}, {"klsa.z": 5, "b": 0.75},
    ]  # fmt: skip


def test_values_are_checked_by_the_parameters_own_declaration():
    assert dimension("rm3=true,false", ()).values == (True, False)
    kernels = dimension("klsa.kernel=bm25(k1=2,b=.75),vsm+rbf(cosine(bm25(k1=1,b=0)),gamma=2)", ("klsa",)).values
    assert kernels == ("bm25(k1=2,b=.75)", "vsm+rbf(cosine(bm25(k1=1,b=0)),gamma=2)")
    assert dimension("mslm.scales=8|1,2,4", ("mslm",)).values == ((8.0,), (1.0, 2.0, 4.0))
    assert read_dimension("mslm", "scales", [[8], (1, 2, 4)], ["mslm"]).values == ((8.0,), (1.0, 2.0, 4.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("klsa.q=1", "--klsa.q: unknown option; known: z, lambda"),
        ("klsa.z=0", "--try klsa.z: 0 is below 1"),
        ("fusion.learner=svm", "--try fusion.learner: fusion is trained on judgements or clicks"),
        ("rm3-dcos=1", "--rm3-dcos: unknown option; did you mean --rm3-docs?"),
        ("pert.alpha=1", "--try pert.alpha: has no effect without --rerank pert"),
        ("b=0.5,1.5", "--try b: 1.5 is above 1"),
        ("klsa.z=1,x", "--try klsa.z: 'x' is not a whole number"),
        ("b=.5,0.5", "--try b: a value is given twice"),
        ("b=0.9..0.1", "--try b: 0.9..0.1 is not a range"),
        ("mu=log:0..10", "--try mu: 0..10 is not a range from a lower to a higher positive number"),
        ("rm3=0..1", "--try rm3: only numbers have ranges"),
    ],
)
def test_bad_declarations_are_one_clear_line(text, message):
    with pytest.raises(OptionError) as caught:
        dimension(text, ["klsa", "fusion"])
    assert re.search(message.replace("?", r"\?"), caught.value.message(Flag.on_command_line))


def test_a_range_needs_samples():
    with pytest.raises(OptionError, match="try='b': a range has no grid"):
        list(grid(dimensions("b=0.1..0.9")))


def test_draws_are_seeded_different_and_inside():
    space = dimensions("b=0.1..0.9", "klsa.z=1..5", "mu=log:10..1000", "klsa.lambda=0.5,0.9")
    result = list(draws(space, 200, seed=3))
    assert result == list(draws(space, 200, seed=3)) != list(draws(space, 200, seed=4))
    assert len({key(setting) for setting in result}) == 200
    assert all(
        0.1 <= setting["b"] <= 0.9 and setting["klsa.z"] in range(1, 6) and 10 <= setting["mu"] <= 1000 for setting in result
    )
    assert 60 < sum(setting["mu"] < 100 for setting in result) < 140  # half of them below the geometric middle


def test_draws_from_a_small_space_are_the_whole_of_it():
    assert list(draws(dimensions("klsa.z=1,2", "b=0.4,0.5"), 10, 0)) == list(grid(dimensions("klsa.z=1,2", "b=0.4,0.5")))
    assert sorted(setting["klsa.z"] for setting in draws(dimensions("klsa.z=1..3"), 10, 0)) == [1, 2, 3]


def test_names_for_people_and_parts_for_programs():
    setting = {"rm3-docs": 5, "klsa.lambda": 0.5, "dense.exact": True}
    assert label(setting) == "rm3-docs=5 klsa.lambda=0.5 dense.exact=true" and label({}) == "as given"
    assert split(setting, ["klsa", "dense"]) == ({"rm3_docs": 5}, {"klsa": {"lambda": 0.5}, "dense": {"exact": True}})


@pytest.mark.parametrize("methods", [[], ["klsa"], ["mslm"], ["pert"], ["pert", "klsa"]])
def test_default_grids_have_values_that_the_options_take(methods):
    tried = dimensions(*(f"{name}={values}" for name, values in space.default_grid(methods).items()), methods=methods)
    assert all(not dimension.is_range and len(dimension.values) > 1 for dimension in tried)
    assert {dimension.name.partition(".")[0] for dimension in tried if "." in dimension.name} == set(methods)


def test_a_method_without_a_default_grid_names_its_parameters():
    with pytest.raises(OptionError, match=r"try: auto has no default grid; .* names: .*depth"):
        space.default_grid(["auto"])
