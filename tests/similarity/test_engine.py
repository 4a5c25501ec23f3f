"""Similar documents from end to end: the app-recommendation set-up with ten kernels, learning, explaining, the verb."""

import json

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch import similar as similar_verb
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.kernels.documents import Cosine
from kernelsearch.learning.ranking.lists import Lists, mean_average_precision
from kernelsearch.similarity import SimilarDocuments
from kernelsearch.similarity.engine import truth_from_groups
from kernelsearch.similarity.pair_kernels import PairKernels, default_recipe
from tests.conftest import DEMO, write_jsonl

#: Ten kernels of mixed kinds, as in the paper's experiment.
TEN = [
    "string:field=name", "cosine", "bm25", "language", "latent", "category:field=genre", "list:field=permissions",
    "number:field=rating", "number:field=size", "date:field=updated",
]  # fmt: skip
WORDS = {
    "maps": "route road city navigation traffic street offline map travel",
    "chess": "board move opponent puzzle pawn queen strategy play match",
    "notes": "text write remind list paper folder sync idea draft",
}


def apps(count=60, seed=0):
    """Apps of three families. Genre says a little, permissions and words say more, rating and size say nothing."""
    chance = np.random.default_rng(seed)
    out = []
    for number in range(count):
        family = list(WORDS)[number % 3]
        words = chance.choice(WORDS[family].split(), 5).tolist() + chance.choice(" ".join(WORDS.values()).split(), 4).tolist()
        out.append(
            {
                "id": f"app{number:02d}",
                "name": f"{family.title()} {chance.choice(['Go', 'Pro', 'Lite'])} {number}",
                "contents": " ".join(words),
                "genre": family if chance.random() < 0.7 else "tools",
                "permissions": [family, "net"] if chance.random() < 0.8 else ["net"],
                "rating": float(chance.integers(1, 6)),
                "size": float(chance.integers(1, 90)),
                "updated": f"2017-0{chance.integers(1, 10)}-15",
            }
        )
    return out


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("apps")
    source = write_jsonl(folder / "apps.jsonl", apps())
    index_verb.main(["--input", str(source), "--index", str(folder / "index")])
    return kernelsearch.open(folder / "index")


@pytest.fixture(scope="module")
def families():
    return [[f"app{number:02d}" for number in range(start, 60, 3)] for start in range(3)]


def test_the_recipe_follows_the_fields(store):
    result = default_recipe(store)
    assert {"latent", "category:field=genre", "list:field=permissions", "number:field=rating", "date:field=updated"} <= set(
        result
    )
    assert "cosine:field=title" not in result  # these records have none


def test_kernel_values(store):
    kernels = PairKernels(store, TEN)
    rows = store.forward.rows_of(["app00", "app03", "app01"])
    table = kernels.table(int(rows[0]), rows)
    records = apps()
    assert table.shape == (3, 10)
    assert table[0] == pytest.approx(1, abs=1e-6)  # every kernel is 1 between a document and itself
    assert table[:, 1] == pytest.approx(Cosine().documents(store.forward, rows[:1], rows)[0])
    assert table[1, 5] == float(records[0]["genre"] == records[3]["genre"])


def test_learning_beats_equal_weights_on_apps_not_trained_on(store, families, tmp_path):
    finder = SimilarDocuments(store, kernels=TEN)
    truth = truth_from_groups(families)
    X, y, qid = finder.training_table(truth)
    even = np.isin(qid, sorted(truth)[::2])
    plain = mean_average_precision(finder.learner.predict(X[~even], qid[~even]), y[~even], Lists.of(qid[~even]))
    finder.fit({name: truth[name] for name in sorted(truth)[::2]}, tmp_path / "m", learner="net")
    learned = mean_average_precision(finder.learner.predict(X[~even], qid[~even]), y[~even], Lists.of(qid[~even]))
    assert learned > plain + 0.03
    assert dict(zip(TEN, finder.model.importance(), strict=True))["number:field=size"] < 0.1


def test_a_saved_model_finds_and_explains(store, families, tmp_path):
    finder = SimilarDocuments(store, kernels=TEN)
    finder.fit(truth_from_groups(families), tmp_path / "m", learner="net", limit=20)
    again = SimilarDocuments(store, model=tmp_path / "m")
    result = again.find("app05", 8)
    assert result == finder.find("app05", 8) and "app05" not in dict(result) and len(result) == 8
    explanation = again.explain("app05", result[0][0])
    assert explanation.score == pytest.approx(result[0][1])
    assert sum(part.value for part in explanation.contributions) == pytest.approx(explanation.score)


def test_the_verb(store, families, tmp_path, capsys):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{group[0]}\t{other}\n" for group in families for other in group[1:]))
    where = ["--index", str(store.path)]
    similar_verb.main([*where, "--pairs", str(pairs), "--learner", "net", "--output", str(tmp_path / "m")])
    similar_verb.main(
        [*where, "--model", str(tmp_path / "m"), "--docid", "app00", "--top", "3", "--json", "--explain", "app03", "--plot",
         str(tmp_path / "p.svg")]
    )  # fmt: skip
    explanation = json.loads(capsys.readouterr().out)
    assert len(explanation["similar"]) == 3 and explanation["explanation"]["docid"] == "app03"
    drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert all(f"<!-- {part['label']} -->" in drawn for part in explanation["explanation"]["contributions"])
    similar_verb.main([*where, "--docid", "app00"])
    assert "rank" in capsys.readouterr().out


def test_similar_on_the_bundled_collection(demo_index):
    """A repair guide's nearest ones share its subject, whatever the words."""
    finder = SimilarDocuments(demo_index)
    result = finder.find(demo_index.forward.docids[0], 5)
    assert len(result) == 5 and [score for _, score in result] == sorted((score for _, score in result), reverse=True)


def test_learning_from_clicks(demo_index, tmp_path):
    from kernelsearch.clicks.__main__ import main as clicks_verb

    clicks_verb(["import", "--input", str(DEMO / "clicks.jsonl"), "--output", str(tmp_path / "log.db")])
    flags = ["--clicks", str(tmp_path / "log.db"), "--output", str(tmp_path / "m"), "--learner", "net", "--limit", "20"]
    similar_verb.main(["--index", str(demo_index.path), "--kernels", "cosine cosine:field=title", *flags])
    assert (tmp_path / "m" / "meta.json").exists()


def test_clear_words(store, tmp_path, capsys):
    finder = SimilarDocuments(store, kernels=["cosine"])
    with pytest.raises(InputError, match="'nobody' is not in"):
        finder.find("nobody")
    with pytest.raises(OptionError, match="kernels: unknown kernel 'colour'; known: latent, vectors, cosine"):
        SimilarDocuments(store, kernels=["colour"])
    with pytest.raises(OptionError, match="'category' should name its field"):
        SimilarDocuments(store, kernels=["category"])
    (tmp_path / "bad.tsv").write_text("a\tb\tc\n")
    with pytest.raises(InputError, match=r"bad.tsv: line 1: two docids were expected, 3 found"):
        similar_verb.main(["--index", str(store.path), "--pairs", str(tmp_path / "bad.tsv"), "--output", str(tmp_path / "m")])
    with pytest.raises(SystemExit):
        similar_verb.main(["--index", str(store.path)])
    assert "--docid is not given" in capsys.readouterr().err
