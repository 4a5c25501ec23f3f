"""R-Loss of `evaluate`, counted by hand from the definition."""

import json

import numpy as np
import pytest

from kernelsearch import evaluate as verb
from kernelsearch.core.errors import OptionError

DEPTH = 8


def average_precision(docs, relevant):
    hits, total = 0, 0.0
    for rank, doc in enumerate(docs, 1):
        if doc in relevant:
            hits += 1
            total += hits / rank
    return total / len(relevant)


@pytest.fixture
def material(tmp_path):
    """Random judgements and two random runs; topic 11 is missing in the treatment, topic 12 in the baseline."""
    chance = np.random.default_rng(0)
    qrels = {qid: set(chance.choice(20, 6, replace=False).tolist()) for qid in range(40)}
    runs = {
        name: {qid: chance.permutation(20)[: chance.integers(2, 15)].tolist() for qid in qrels if qid != missing}
        for name, missing in (("treated", 11), ("base", 12))
    }
    (tmp_path / "qrels").write_text("".join(f"{qid} 0 d{doc} 1\n" for qid, docs in qrels.items() for doc in docs))
    for name, run in runs.items():
        lines = [f"{qid} Q0 d{doc} {rank} {99 - rank} t\n" for qid, docs in run.items() for rank, doc in enumerate(docs, 1)]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    return tmp_path, qrels, runs


@pytest.mark.parametrize("topics", ["", "--no-complete", "--all-judged"])
def test_r_loss_is_counted_over_the_topics_whose_ap_gets_worse(material, capsys, topics):
    folder, qrels, runs = material
    flags = ["--qrels", f"{folder}/qrels", "--baseline", f"{folder}/base.txt", f"{folder}/treated.txt", "--per-query"]
    verb.main([*flags, "--measures", f"R-Loss@{DEPTH},AP", "--format", "json", *topics.split()])
    record = json.loads(capsys.readouterr().out)
    expected = {}
    for qid, relevant in qrels.items():
        before, after = (runs[name].get(qid, []) for name in ("base", "treated"))
        if topics == "--no-complete" and not after:
            continue
        worse = average_precision(after, relevant) < average_precision(before, relevant)
        worse = worse and (topics == "--all-judged" or (before and after))
        lost = len(relevant & set(before[:DEPTH])) - len(relevant & set(after[:DEPTH]))
        expected[str(qid)] = float(lost if worse else 0)
    name = f"R-Loss@{DEPTH}"
    assert record["runs"]["treated"]["per_topic"][name] == expected
    assert min(expected.values()) < 0 < max(expected.values())  # a topic that gets worse may gain recall: the net counts
    assert record["runs"]["treated"]["means"][name] == sum(expected.values()) != 0
    assert record["runs"]["base"]["means"][name] == 0
    assert {difference["measure"] for difference in record["comparison"]["differences"]} == {"AP"}


@pytest.mark.parametrize("kind", ["text", "markdown", "latex", "csv"])
def test_every_format_and_the_page_take_it(material, capsys, kind):
    folder, _, _ = material
    flags = ["--qrels", f"{folder}/qrels", "--baseline", f"{folder}/base.txt", f"{folder}/treated.txt", "--format", kind]
    verb.main([*flags, "--measures", "rloss@5,P@5", "--html", f"{folder}/page.html"])
    assert "R-Loss@5" in capsys.readouterr().out
    verb.main([*flags, "--measures", "R-Loss@5"])
    result = capsys.readouterr().out
    assert "AP" in result and "R-Loss@5" in result  # alone it comes with AP, by which topics get worse


def test_what_is_refused(material, capsys):
    folder, _, _ = material
    flags = ["--qrels", f"{folder}/qrels", f"{folder}/treated.txt"]
    with pytest.raises(SystemExit):
        verb.main([*flags, "--measures", "R-Loss@5"])
    assert "R-Loss@5 is a comparison; name the run to compare with by --baseline" in capsys.readouterr().err
    for name in ("R-Loss", "R-Loss@0", "R-Loss@x"):
        with pytest.raises(OptionError, match="is not R-Loss with a cutoff"):
            verb.main([*flags, "--baseline", f"{folder}/base.txt", "--measures", name])
