import pytest

from kernelsearch.cli.console import Parser
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option, add_flags, collect, resolve

OPTIONS = (
    Option("dims", int, 300, "dimensions", low=1),
    Option("lambda", float, 0.9, "mix", low=0, high=1),
    Option("kernel", str, "bm25", "kernel", choices=("bm25", "linear")),
    Option("save-queries", str, None, "file"),
    Option("rescore", bool, False, "only rescore"),
    Option("smooth", bool, True, "smooth"),
    Option("scales", float, (0.0, 1.0), "scales", many=True),
)


def parse(*argv):
    parser = Parser(prog="x")
    add_flags(parser, OPTIONS, owner="m")
    return resolve(OPTIONS, collect(parser.parse_args(list(argv)), OPTIONS, "m"), "m")


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
    got = parse(
        "--m.dims", "5", "--m.lambda", "0", "--m.save-queries", "q.tsv", "--m.rescore", "--m.no-smooth", "--m.scales", "0,2,inf"
    )
    assert got["dims"] == 5 and got["lambda"] == 0.0 and got["save_queries"] == "q.tsv"
    assert got["rescore"] is True and got["smooth"] is False and got["scales"] == (0.0, 2.0, float("inf"))


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--m.dims", "many"), "--m.dims: 'many' is not a whole number"),
        (("--m.dims", "0"), "--m.dims: 0 is below 1"),
        (("--m.lambda", "1.5"), "--m.lambda: 1.5 is above 1"),
        (("--m.lambda", "nan"), "--m.lambda: not a number"),
        (("--m.kernel", "rbf"), "--m.kernel: 'rbf' is not one of bm25, linear"),
        (("--m.scales", "0,x"), "--m.scales: 'x' is not a number"),
    ],
)
def test_bad_values_name_the_option(argv, message):
    with pytest.raises(OptionError) as caught:
        parse(*argv)
    assert str(caught.value) == message


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(OptionError, match="m: unknown option 'dim'; known: dims, kernel"):
        resolve(OPTIONS, {"dim": 3}, "m")


def test_python_values_are_checked_too():
    assert resolve(OPTIONS, {"dims": 7.0, "save-queries": "x"}, "m")["dims"] == 7
    with pytest.raises(OptionError, match=r"--m.dims: 7.5 is not a whole number"):
        resolve(OPTIONS, {"dims": 7.5}, "m")


def test_unknown_flag_is_one_line_and_status_2(capsys):
    parser = Parser(prog="x")
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(["--nonsense"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert "--nonsense" in error and error.count("\n") == 1
