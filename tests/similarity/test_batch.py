"""`similar` for many documents: runs, P@k by classes, pairs and judgements, messages."""

import json
from unittest.mock import patch

import numpy as np
import pytest

from kernelsearch import similar
from kernelsearch.core.errors import InputError
from kernelsearch.similarity.groups import groups_from_classes
from kernelsearch.trec import read_run
from tests.conftest import DEMO

KERNELS = ["--kernels", "cosine"]


@pytest.fixture
def where(demo_index):
    return ["--index", str(demo_index.path), *KERNELS]


@pytest.fixture
def cosines(demo_index):
    """Cosines of tf·idf between all documents, dense, from the postings: idf as Lucene's BM25 has it."""
    forward = demo_index.forward
    counts = np.zeros((len(forward.docids), len(forward.terms)))
    for row in range(len(counts)):
        span = slice(int(forward.indptr[row]), int(forward.indptr[row + 1]))
        counts[row, forward.indices[span]] = forward.frequencies[span]
    df = (counts > 0).sum(axis=0)
    vectors = counts * np.log(1 + (len(counts) - df + 0.5) / (df + 0.5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


def best(cosines, demo_index, docid, top):
    row = list(demo_index.forward.docids).index(docid)
    order = [other for other in np.argsort(-cosines[row], kind="stable") if other != row]
    return [demo_index.forward.docids[int(other)] for other in order[:top]]


def test_a_run_of_many_documents(where, cosines, demo_index, tmp_path):
    (tmp_path / "docids").write_text("hr230\n\nhr040\n")
    similar.main([*where, "--docids", str(tmp_path / "docids"), "--run", str(tmp_path / "run"), "--top", "3"])
    result = read_run(tmp_path / "run")
    assert list(result) == ["hr230", "hr040"]
    for docid, ranked in result.items():
        assert [other for other, _ in ranked] == best(cosines, demo_index, docid, 3)


def test_precision_by_classes_is_the_share_of_the_same_class(where, cosines, demo_index, tmp_path, capsys):
    chance = np.random.default_rng(0)
    docids = list(demo_index.forward.docids)
    classes = {docid: f"c{chance.integers(2)}" for docid in docids}
    (tmp_path / "classes").write_text("".join(f"{docid}\t{name}\n" for docid, name in classes.items()))
    (tmp_path / "docids").write_text("\n".join(docids[:6]))
    sources = ["--classes", str(tmp_path / "classes"), "--docids", str(tmp_path / "docids")]
    flags = [*sources, "--evaluate", "--measures", "P@1,P@5"]
    similar.main([*where, *flags, "--per-query", "--json"])
    record = json.loads(capsys.readouterr().out)["runs"]["equal weights"]
    for k in (1, 5):
        expected = {
            docid: sum(classes[other] == classes[docid] for other in best(cosines, demo_index, docid, k)) / k
            for docid in docids[:6]
        }
        assert record["per_topic"][f"P@{k}"] == pytest.approx(expected)
        assert record["means"][f"P@{k}"] == pytest.approx(np.mean(list(expected.values())))


def test_limit_draws_documents_and_strangers_are_left_out(where, tmp_path, capsys):
    flags = [*where, "--evaluate", "--limit", "7", "--json"]
    similar.main([*flags, "--qrels", str(DEMO / "qrels.txt")])
    assert json.loads(capsys.readouterr().out)["runs"]["equal weights"]["topics"] == 7
    (tmp_path / "pairs").write_text("hr230 hr040\nstranger hr040\n")
    similar.main([*flags, "--pairs", str(tmp_path / "pairs")])
    assert json.loads(capsys.readouterr().out)["runs"]["equal weights"]["topics"] == 2
    (tmp_path / "docids").write_text("hr230\nhr001\n")
    similar.main([*flags, "--pairs", str(tmp_path / "pairs"), "--docids", str(tmp_path / "docids")])
    result = capsys.readouterr()
    assert json.loads(result.out)["runs"]["equal weights"]["topics"] == 1
    assert "1 documents have no known similar ones and are left out" in result.err


def test_classes_are_read_line_by_line(tmp_path):
    (tmp_path / "c").write_text("a\tred wine\nb red\n\nc\tred wine\na\tsour\n")
    assert groups_from_classes(tmp_path / "c") == [["a", "c"], ["b"], ["a"]]
    (tmp_path / "c").write_text("a\tred\nb\n")
    with pytest.raises(InputError, match="line 2: a docid and a class were expected"):
        groups_from_classes(tmp_path / "c")


def test_what_is_refused(where, tmp_path, capsys):
    (tmp_path / "docids").write_text("hr230\nnobody\n")
    run = tmp_path / "run"
    with pytest.raises(InputError, match="'nobody' is not in"):
        similar.main([*where, "--docids", str(tmp_path / "docids"), "--run", str(run)])
    assert not run.exists()
    for flags in (["--docid", "nobody"], ["--docid", "hr230", "--explain", "nobody"]):
        with (
            patch("kernelsearch.similar.SimilarDocuments", side_effect=AssertionError("checked before the work")),
            pytest.raises(InputError, match="'nobody' is not in"),
        ):
            similar.main([*where, *flags])
    (tmp_path / "docids").write_text("hr230\nhr230\n")
    with pytest.raises(InputError, match="line 2: 'hr230' appears twice"):
        similar.main([*where, "--docids", str(tmp_path / "docids"), "--run", str(run)])
    (tmp_path / "pairs").write_text("x y\n")
    with pytest.raises(InputError, match="evaluate: none of the 2 documents with similar ones is in"):
        similar.main([*where, "--evaluate", "--pairs", str(tmp_path / "pairs")])
    for flags, message in (
        (["--evaluate"], "--evaluate: needs --qrels"),
        (["--evaluate", "--pairs", "p", "--output", "m"], "exclude each other"),
        (["--docids", "d"], "--docids: needs --run"),
        (["--run", "r", "--docid", "hr230"], "--run: needs --docids"),
        (["--docids", "d", "--docid", "hr230"], "exclude each other"),
    ):
        with pytest.raises(SystemExit):
            similar.main([*where, *flags])
        assert message in capsys.readouterr().err
