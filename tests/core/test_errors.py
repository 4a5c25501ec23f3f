"""Messages name options as the reader knows them: as flags on the command line, as keywords in Python."""

import pickle

import pytest

import kernelsearch
from kernelsearch.core.errors import InputError, KernelSearchError, OptionError, as_keywords, show_flags


@pytest.fixture
def in_python():
    """Messages as in a Python program, which the tests' set-up changes to those of the command line."""
    before = show_flags(False)
    yield
    show_flags(before)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("--klsa.z: 0 is below 1", "klsa_z: 0 is below 1"),
        ("learns from --topics, or from --ltr", "learns from topics, or from ltr"),
        ("count as zero (--no-complete leaves them out)", "count as zero (complete=False leaves them out)"),
        ("a--b.txt and /z--w: --rm3.terms", "a--b.txt and /z--w: rm3_terms"),
        ("'--hits' -- and ---", "'--hits' -- and ---"),
        ("--k1: see python -m kernelsearch.tune --try k1=1", "k1: see python -m kernelsearch.tune --try k1=1"),
        ("--k1: pip install --no-deps pyserini", "k1: pip install --no-deps pyserini"),
        ("--k1: see `tune --try k1=1`", "k1: see `tune --try k1=1`"),
    ],
)
def test_flags_are_keywords_in_python(written, read, in_python):
    assert as_keywords(written) == str(OptionError(written)) == read
    made_by_a_worker = pickle.loads(pickle.dumps(InputError(written)))
    assert str(made_by_a_worker) == read
    show_flags()
    assert str(OptionError(written)) == str(made_by_a_worker) == written


def test_a_python_program_reads_no_flags(tiny, in_python):
    calls = [
        (lambda: tiny.search("tap", rerank="klsa", klsa_z=0), "klsa_z: 0 is below 1"),
        (lambda: tiny.search("tap", rerank="kls"), "rerank: 'kls' is not one of auto"),
        (lambda: tiny.train("fusion"), "rerank fusion: learns from topics and qrels, from clicks, or from ltr"),
        (lambda: tiny.similar("d1", kernels=["x"]), "kernels: unknown kernel 'x'"),
        (lambda: kernelsearch.evaluate(tiny.path, {"1": "tap"}, {"1": {"d1": 1}}, measures=["x"]), "measures: 'x' is not"),
    ]
    for call, begin in calls:
        with pytest.raises(KernelSearchError) as caught:
            call()
        assert str(caught.value).startswith(begin)
