"""A Lucene index that is damaged: every exception of Java is an error, those that Anserini prints and swallows too."""

import shutil

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch import search as search_verb
from kernelsearch.core.errors import IndexProblem, JavaError
from kernelsearch.lucene.models import RM3, BM25Model, Rocchio
from kernelsearch.lucene.simple import simple_search, simple_searcher
from tests.conftest import TINY, write_jsonl


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An index without a forward index, so that Anserini itself computes feedback."""
    folder = tmp_path_factory.mktemp("damage")
    source = write_jsonl(folder / "corpus.jsonl", TINY)
    index_verb.main(["--input", str(source), "--index", str(folder / "index"), "--no-forward"])
    return folder / "index"


@pytest.fixture
def damaged(whole, tmp_path):
    """The index with term vectors that can't be read: the compressed data is overwritten, header and footer are whole.

    Without the note of verified files, as an index of another program.
    """
    path = shutil.copytree(whole, tmp_path / "index")
    (path / "kernelsearch" / "verified.json").unlink()
    (file,) = path.glob("*.tvd")
    data = bytearray(file.read_bytes())
    data[60:-20] = b"\xff" * (len(data) - 80)
    file.write_bytes(data)
    return path


@pytest.mark.parametrize("feedback", [RM3(), Rocchio()])
@pytest.mark.parametrize("threads", [1, 2])
def test_feedback_on_damaged_vectors_is_an_error(damaged, capfd, feedback, threads):
    index = kernelsearch.open(damaged)
    queries = [index.query("water tap"), index.query("fuse")]
    with pytest.raises(JavaError, match=rf"{damaged}: Java: .*kernelsearch\.check --index {damaged} "):
        index.lucene.search(queries, feedback=feedback, threads=threads)
    assert capfd.readouterr().err == ""
    assert len(index.lucene.search(queries)[0].docs)  # what isn't damaged is still found


def test_the_verb_writes_no_run(damaged, tmp_path):
    (tmp_path / "topics.tsv").write_text("1\twater tap\n")
    flags = ["--index", str(damaged), "--topics", str(tmp_path / "topics.tsv"), "--output", str(tmp_path / "run"), "--rm3"]
    with pytest.raises(JavaError):
        search_verb.main(flags)
    assert not (tmp_path / "run").exists()


def test_anserinis_own_searcher_too(damaged, capfd):
    lucene = kernelsearch.open(damaged).lucene
    searcher = simple_searcher(lucene, BM25Model(), RM3())
    with pytest.raises(JavaError, match="Java: "):
        simple_search(searcher, "water tap", 10)
    assert capfd.readouterr().err == ""


def test_java_prints_as_before_outside_of_a_capture(whole, capfd):
    index = kernelsearch.open(whole)
    index.lucene.search([index.query("water tap")], feedback=RM3())
    from jnius import autoclass

    autoclass("java.lang.System").err.println("printed")
    assert capfd.readouterr().err == "printed\n"


@pytest.mark.parametrize("name", ["*.doc", "*.pos", "*.fdt", "*.tvd", "*.tim", "*.nvd", "*.dvd"])
def test_a_flipped_bit_in_a_file_of_lucene_is_refused_by_name(whole, tmp_path, name):
    path = shutil.copytree(whole, tmp_path / "index")
    (file,) = path.glob(name)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    with pytest.raises(IndexProblem, match=rf"index: a damaged Lucene index \({file.name}: .*; index the collection again"):
        kernelsearch.open(path).lucene.search([])


def test_a_damaged_record_of_the_language_is_refused_at_opening(whole, tmp_path):
    path = shutil.copytree(whole, tmp_path / "index")
    file = path / "kernelsearch" / "index.json"
    file.write_text(file.read_text().replace('"en"', '"es"'))
    with pytest.raises(IndexProblem, match=r"index\.json: damaged"):
        kernelsearch.open(path)
