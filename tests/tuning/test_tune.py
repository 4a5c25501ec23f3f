"""The verb on the bundled collection: its figures are those of search and evaluate, with any processes, after any kill."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch import evaluate, search, train, tune
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.evaluation.measures import evaluate as evaluated
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.trec import read_qrels, read_run, read_topics
from tests.conftest import DEMO, ROOT

SPACE = ["--try", "k1=0.9,1.5", "--try", "klsa.z=1,3,6", "--try", "klsa.lambda=0,0.4,0.8"]


def flags(index, output, *more):
    data = ["--index", str(index.path), "--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    return [*data, "--rerank", "klsa", *SPACE, "--folds", "3", "--output", str(output), *more]


@pytest.fixture(scope="module")
def tuned(demo_index, tmp_path_factory):
    """The folder of a finished tuning in one process, and what it printed."""
    folder = tmp_path_factory.mktemp("tuned")
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        tune.main(flags(demo_index, folder / "best.toml", "--processes", "1"))
    return folder, printed.getvalue()


def test_the_best_config_gives_the_best_mean(tuned, demo_index, tmp_path, capsys):
    folder, printed = tuned
    run = tmp_path / "run.txt"
    search.main(["--config", str(folder / "best.toml"), "--topics", str(DEMO / "topics.tsv"), "--output", str(run)])
    evaluate.main(["--qrels", str(DEMO / "qrels.txt"), str(run), "--measures", "AP", "--format", "csv"])
    mean = float(capsys.readouterr().out.splitlines()[1].split(",")[3])
    lines = (folder / "best.toml.results.jsonl").read_text().splitlines()
    rows = [re.search(r'"values": \[(.*)\]', line)[1].split(", ") for line in lines[1:]]
    means = [np.mean([float(value) for value in row]) for row in rows]
    assert len(means) == 1 + 18 and max(means[1:]) == pytest.approx(mean, abs=1e-12)
    assert "tuned, held out" in printed and "best of 18 settings" in printed


def test_parameters_of_training_are_fitted_once_each(demo_index, tmp_path, capsys):
    space = ["--try", "klsa.kernel=bm25(k1=2,b=.75),vsm", "--try", "klsa.z=1,3"]
    data = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    command = [*data, "--rerank", "klsa", *space, "--output", str(tmp_path / "best.toml"), "--processes", "1"]
    tune.main(command)
    printed, messages = capsys.readouterr()
    assert messages.count("fitting {") == 2
    fitted = {str(path) for path in (tmp_path / "best.toml.fitted").iterdir()}
    assert len(fitted) == 2
    best = tomllib.loads((tmp_path / "best.toml").read_text())["rerank"][0]
    assert best["basis"] in fitted and "kernel" not in best
    kernel = re.search(r"best of 4 settings: klsa.kernel=(\S+)", printed)[1]
    assert json.loads((Path(best["basis"]) / "meta.json").read_text())["parameters"]["kernel"] == kernel

    run, trained = tmp_path / "run.txt", tmp_path / "trained.txt"
    search.main(["--config", str(tmp_path / "best.toml"), "--topics", str(DEMO / "topics.tsv"), "--output", str(run)])
    basis = str(tmp_path / "basis")
    train.main(["--index", str(demo_index.path), "--rerank", "klsa", "--klsa.kernel", kernel, "--output", basis])
    chosen_flags = ["--rerank", "klsa", "--klsa.z", str(best["z"]), "--klsa.basis", basis]
    search.main([*data[:4], *chosen_flags, "--output", str(trained)])
    assert run.read_bytes() == trained.read_bytes()

    (tmp_path / "best.toml").unlink()
    capsys.readouterr()
    tune.main(command)
    assert capsys.readouterr().out == printed  # from what was kept, without fitting again


def test_processes_change_nothing(tuned, demo_index, tmp_path, capsys):
    tune.main(flags(demo_index, tmp_path / "best.toml", "--processes", "2"))
    assert capsys.readouterr().out == tuned[1]
    assert (tmp_path / "best.toml").read_bytes() == (tuned[0] / "best.toml").read_bytes()


def test_a_script_may_tune_in_processes_without_a_main_guard(demo_index, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import kernelsearch\n"
        f"tuned = kernelsearch.tune({str(demo_index.path)!r}, {str(DEMO / 'topics.tsv')!r}, {str(DEMO / 'qrels.txt')!r},\n"
        "    tried={'k1': [0.9, 1.2]}, folds=2, processes=2)\n"
        "print('tuned', len(tuned.tried))\n"
    )
    run = subprocess.run([sys.executable, script], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert (run.stdout, run.returncode) == ("tuned 2\n", 0), run.stderr


def test_killed_and_taken_up_again(tuned, demo_index, tmp_path, capsys):
    command = [sys.executable, "-m", "kernelsearch.tune", *flags(demo_index, tmp_path / "best.toml", "--processes", "1")]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    journal = tmp_path / "best.toml.results.jsonl"
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not journal.exists() or journal.read_bytes().count(b"\n") < 2):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    known = journal.read_bytes().count(b"\n")
    assert known >= 2
    capsys.readouterr()
    tune.main(command[3:])
    printed = capsys.readouterr()
    assert f"{known - 1} settings are known already" in printed.err
    assert printed.out == tuned[1]
    assert (tmp_path / "best.toml").read_bytes() == (tuned[0] / "best.toml").read_bytes()


def test_too_many_folds_are_refused_before_the_work(demo_index, tmp_path):
    with pytest.raises(OptionError, match="folds: 1000, but there are only 98 judged topics"):
        tune.main([*flags(demo_index, tmp_path / "best.toml", "--processes", "1"), "--folds", "1000"])
    assert not list(tmp_path.iterdir())


def test_settings_of_vectors_are_part_of_the_result_and_of_the_config(demo_index, tmp_path):
    """A tuning with other query vectors is another one, and the config that it writes searches with the same vectors."""
    index = kernelsearch.open(shutil.copytree(demo_index.path, tmp_path / "index"))
    docids = index.forward.docids.take(index.forward.live_docs)
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    generator = np.random.default_rng(0)
    for name in ("a", "b"):
        index.add_vectors(name, generator.normal(size=(len(docids), 4)), docids, dtype="float32")
        np.savez(tmp_path / f"{name}.npz", ids=np.array(list(topics)), vectors=generator.normal(size=(len(topics), 4)))
    tries = {"hits": (5, 20)}
    for name in ("a", "b"):
        opened = kernelsearch.open(index.path, vectors={"name": name, "queries": str(tmp_path / f"{name}.npz")})
        tuned = kernelsearch.tune(opened, topics, qrels, "dense", tries, folds=2, output=tmp_path / f"{name}.toml")
        search.main(
            ["--config", str(tmp_path / f"{name}.toml"), "--topics", str(DEMO / "topics.tsv"), "--output", str(tmp_path / name)]
        )
        judged = evaluated(qrels, read_run(tmp_path / name), parse_measures(["AP"]))
        assert judged.mean("AP") == pytest.approx(tuned.choice.best_mean, abs=1e-9)
    shutil.copy(tmp_path / "a.toml.results.jsonl", tmp_path / "b.toml.results.jsonl")
    with pytest.raises(InputError, match="results of another tuning"):
        kernelsearch.tune(opened, topics, qrels, "dense", tries, folds=2, output=tmp_path / "b.toml")


def test_random_settings_for_the_first_stage_alone(demo_index, tmp_path, capsys):
    data = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt")]
    more = ["--try", "k1=0.4..2.0", "--try", "b=0.1..0.9", "--samples", "4", "--measure", "nDCG@10", "--processes", "1"]
    tune.main([*data, *more, "--output", str(tmp_path / "b.toml")])
    assert "best of 4 settings: k1=" in capsys.readouterr().out
    tune.main([*data, "--try", "k1=0.0", "--processes", "1", "--output", str(tmp_path / "worse.toml")])
    assert "a tuned setting is worse than the given one" in capsys.readouterr().err
    tune.main([*data, "--try", "k1=0.9", "--processes", "1", "--output", str(tmp_path / "same.toml")])
    assert "worse" not in capsys.readouterr().err
    with pytest.raises(OptionError, match=r"try='klsa\.z': has no effect without rerank='klsa'"):
        tune.main([*data, "--try", "klsa.z=1", "--output", str(tmp_path / "b.toml")])
