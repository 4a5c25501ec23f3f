from dataclasses import dataclass
from typing import ClassVar

import pytest

from kernelsearch.cli.console import Parser
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings


@dataclass(frozen=True, kw_only=True)
class Made(Settings):
    owner: ClassVar[str] = "m"

    dims: int = option(300, "dimensions", low=1)
    lambda_: float = option(0.9, "mix", low=0, high=1)
    kernel: str = option("bm25", "kernel", choices=("bm25", "linear"))
    save_queries: str | None = option(None, "file")
    rescore: bool = option(False, "only rescore")
    smooth: bool = option(True, "smooth")
    scales: tuple[float, ...] = option((0.0, 1.0), "scales", unbounded=True)


def parse(*argv):
    parser = Parser(prog="x")
    add_flags(parser, Made.options, owner="m")
    return read_flags(Made, parser.parse_args(list(argv))).to_dict()


def test_defaults_are_filled_in():
    assert parse() == {
        "dims": 300,
        "lambda": 0.9,
        "kernel": "bm25",
        "save_queries": None,
        "rescore": False,
        "smooth": True,
        "scales": (0.0, 1.0),
    }


def test_given_values_are_converted():
    values = parse(
        "--m.dims", "5", "--m.lambda", "0", "--m.save-queries", "q.tsv", "--m.rescore", "--m.no-smooth", "--m.scales", "0,2,inf"
    )
    assert values["dims"] == 5 and values["lambda"] == 0.0 and values["save_queries"] == "q.tsv"
    assert values["rescore"] is True and values["smooth"] is False and values["scales"] == (0.0, 2.0, float("inf"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--m.dims", "many"), "--m.dims: 'many' is not a whole number"),
        (("--m.dims", "0"), "--m.dims: 0 is below 1"),
        (("--m.lambda", "1.5"), "--m.lambda: 1.5 is above 1"),
        (("--m.lambda", "nan"), "--m.lambda: not a number"),
        (("--m.kernel", "rbf"), "--m.kernel: 'rbf' is not one of bm25, linear"),
        (("--m.scales", "0,x"), "--m.scales: 'x' is not a number"),
        (("--m.lambda", "1e300"), "--m.lambda: 1e+300 is beyond 1e+30"),
        (("--m.save-queries", ""), "--m.save-queries: an empty text"),
    ],
)
def test_bad_values_name_the_option(argv, message):
    with pytest.raises(OptionError) as caught:
        parse(*argv)
    assert caught.value.message(Flag.on_command_line) == message


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(OptionError, match=r"m_dim: unknown option; did you mean m_dims\?"):
        Made.of({"dim": 3})


def test_python_values_are_checked_too():
    assert Made.of({"dims": 7.0, "save-queries": "x"}) == Made(dims=7, save_queries="x")
    with pytest.raises(OptionError, match=r"m_dims: 7.5 is not a whole number"):
        Made(dims=7.5)


@pytest.mark.parametrize(("name", "value"), [("dims", True), ("lambda_", False), ("scales", [True]), ("kernel", True)])
def test_true_and_false_are_no_numbers_and_no_text(name, value):
    with pytest.raises(OptionError, match=r"is not a whole number|is not a number|is not text"):
        Made(**{name: value})


def test_an_option_is_declared_by_its_field():
    by_name = {declared.name: declared for declared in Made.options}
    assert list(by_name) == ["dims", "lambda", "kernel", "save-queries", "rescore", "smooth", "scales"]
    assert (by_name["scales"].kind, by_name["scales"].many, by_name["lambda"].key) == (float, True, "lambda")
    assert (by_name["save-queries"].kind, by_name["save-queries"].default) == (str, None)


def test_a_classs_own_options_come_before_those_of_its_bases():
    @dataclass(frozen=True, kw_only=True)
    class More(Made):
        extra: int = option(1, "more")

    assert next(declared.name for declared in More.options) == "extra"


def test_settings_are_immutable():
    with pytest.raises(AttributeError):
        Made().dims = 3


@dataclass(frozen=True, kw_only=True)
class Numbers(Settings):
    owner: ClassVar[str] = "n"

    mu: float = option(1.0, "prior", low=0)
    scale: float = option(1.0, "scale", unbounded=True)
    limit: int | None = option(None, "limit")


@pytest.mark.parametrize("value", ["inf", "-inf", float("inf"), "1e999"])
def test_infinity_is_refused_unless_the_option_says_otherwise(value):
    with pytest.raises(OptionError, match=r"n_mu: -?inf is (not a finite number|below 0)"):
        Numbers(mu=value)
    assert Numbers(scale=float("inf")).scale == float("inf")
    with pytest.raises(OptionError, match=r"n_limit: .* is not a whole number"):
        Numbers(limit=float("inf"))


def test_none_is_refused_where_it_is_not_the_default():
    with pytest.raises(OptionError, match=r"n_mu: None is not a number"):
        Numbers(mu=None)
    assert Numbers(limit=None).limit is None


def test_auto_is_the_default_of_numbers_that_are_chosen_later():
    """`--klsa.z auto` and the like, on the command line and from Python; a number with a default of its own has no auto."""
    parser = Parser(prog="x")
    add_flags(parser, KernelLSASettings.options, owner="klsa")
    flags = [word for name in ("z", "lambda", "dims", "retrieve") for word in (f"--klsa.{name}", "auto")]
    assert read_flags(KernelLSASettings, parser.parse_args(flags)) == KernelLSASettings()
    assert KernelLSASettings.of({"z": "auto", "lambda": "auto", "dims": 5}) == KernelLSASettings(dims=5)
    assert KernelLSAFitSettings.of({"dims": "auto"}) == KernelLSAFitSettings()
    with pytest.raises(OptionError, match=r"m_dims"):
        parse("--m.dims", "auto")
