"""trec_eval itself, from Anserini's jar, and random runs that try its habits."""

import platform
import random
import stat
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def trec_eval(tmp_path_factory):
    """The path of the trec_eval binary inside Anserini's jar."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the jar's trec_eval is taken for Linux on x86-64 only")
    from kernelsearch.lucene import jvm

    target = tmp_path_factory.mktemp("trec_eval") / "trec_eval"
    with zipfile.ZipFile(jvm.find_jar()) as jar:
        target.write_bytes(jar.read("trec_eval/trec_eval-linux-amd64"))
    target.chmod(target.stat().st_mode | stat.S_IXUSR)
    return target


def random_judgements_and_run(seed: int, folder: Path) -> tuple[Path, Path]:
    """A qrels and a run file with ties (also ties in single precision only), topics missing on either side, unjudged
    documents, negative grades, ranks that contradict the scores, and docids that sort differently as bytes."""
    chance = random.Random(seed)
    docids = [f"D{number}" for number in range(60)] + ["é1", "Zz", "zz", "d1"]
    qrels, run = folder / "qrels.txt", folder / "run.txt"
    with open(qrels, "w") as judged, open(run, "w") as ranked:
        for topic in range(30):
            if chance.random() < 0.85:
                for docid in chance.sample(docids, chance.randint(1, 30)):
                    judged.write(f"{topic} 0 {docid} {chance.choice([-1, 0, 0, 1, 1, 2])}\n")
            if chance.random() < 0.85:
                for docid in chance.sample(docids, chance.randint(1, 60)):
                    score = chance.choice([chance.randint(0, 5), 20 + chance.randint(0, 3) * 1e-7, chance.random()])
                    ranked.write(f"{topic} Q0 {docid} {chance.randint(1, 60)} {score:.9f} x\n")
    return qrels, run
