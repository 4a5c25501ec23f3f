"""`classify`: train, predict, cross-validate, the saved model, its messages."""

import json
from unittest.mock import call, patch

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from kernelsearch.cli import console
from kernelsearch.core.errors import ArtefactError, InputError, OptionError
from kernelsearch.papers.classify import __main__ as classify
from kernelsearch.papers.classify.multiscale_kernel import MultiScaleKernel
from kernelsearch.papers.classify.text_classifier import ClassifierSettings, load
from tests.conftest import write_jsonl

CARS = ["red car fast road", "fast car engine", "the car engine is loud", "road and car", "engine oil for the car"]
FRUIT = ["ripe green pear", "pear and apple", "sweet apple pie", "green apple tree", "a ripe pear tree"]


@pytest.fixture
def training(tmp_path):
    rows = [{"text": text, "label": label} for texts, label in ((CARS, "car"), (FRUIT, "fruit")) for text in texts]
    return write_jsonl(tmp_path / "train.jsonl", rows)


@pytest.mark.parametrize("weights", ["sum", "bem", "simple"])
def test_train_then_predict_from_the_saved_model(training, tmp_path, capsys, weights):
    new = write_jsonl(
        tmp_path / "new.jsonl", [{"id": "x", "text": "an engine on the road"}, {"id": "y", "contents": "apple pear"}]
    )
    model, output = str(tmp_path / "m"), tmp_path / "out.jsonl"
    classify.main(["--train", str(training), "--model", model, "--weights", weights])
    classify.main(["--model", model, "--predict", str(new), "--output", str(output)])
    assert [json.loads(line) for line in output.read_text().splitlines()] == [
        {"id": "x", "label": "car"},
        {"id": "y", "label": "fruit"},
    ]
    capsys.readouterr()
    classify.main(["--train", str(training), "--weights", weights, "--predict", str(new)])
    assert capsys.readouterr().out == output.read_text()


def test_cross_validation_holds_texts_out(tmp_path, capsys):
    """Every text is twice there with opposite labels: a model that had seen the held-out text could be right, this can't be."""
    rows = [{"text": f"word{number} only", "label": label} for number in range(6) for label in ("a", "b")]
    file = write_jsonl(tmp_path / "twins.jsonl", rows)
    classify.main(["--train", str(file), "--folds", "6"])
    accuracy = float(capsys.readouterr().out.split()[1])
    assert accuracy <= 0.5


def test_cross_validation_of_separable_texts(training, capsys):
    classify.main(["--train", str(training), "--folds", "5", "--kernel", "frobenius"])
    assert float(capsys.readouterr().out.split()[1]) >= 0.8


def test_the_laplacian_pyramid_is_trained_and_saved(training, tmp_path, capsys):
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": text, "text": text} for text in (*CARS, *FRUIT, "loud pie", "tree oil")])
    flags = ["--train", str(training), "--kernel", "frobenius", "--pyramid", "laplacian", "--model", str(tmp_path / "m")]
    classify.main(flags)
    capsys.readouterr()
    classify.main(["--model", str(tmp_path / "m"), "--predict", str(new)])
    predicted = {row["id"]: row["label"] for row in map(json.loads, capsys.readouterr().out.splitlines())}
    kernel = MultiScaleKernel(kernel="frobenius", pyramid="laplacian")
    model = make_pipeline(kernel, SVC(kernel="precomputed", C=10.0)).fit([*CARS, *FRUIT], ["car"] * 5 + ["fruit"] * 5)
    assert len(kernel.levels_) == 4 and all(abs(level.sum(axis=1)).max() < 1e-9 for level in kernel.levels_)
    assert list(predicted.values()) == model.predict(list(predicted)).tolist()
    assert load(tmp_path / "m")[1].pyramid == "laplacian"
    for wrong in (["--kernel", "js"], ["--kernel", "rbf", "--scales", "2"]):
        with pytest.raises(OptionError, match="pyramid='laplacian': needs two scales or more, and kernel='frobenius' or rbf"):
            classify.main(["--train", str(training), "--pyramid", "laplacian", "--folds", "2", *wrong])


def test_cross_validation_names_what_a_plain_classifier_reaches(training, capsys):
    """The labels of these texts alternate 5 to 5, and each text is made of its label's words."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.svm import LinearSVC

    rows = [json.loads(line) for line in training.read_text().splitlines()]
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    plain = make_pipeline(TfidfVectorizer(token_pattern=r"\w+"), LinearSVC())
    expected = cross_val_score(plain, texts, labels, cv=folds).mean()
    most = max(map(labels.count, labels)) / len(labels)
    with patch("kernelsearch.cli.console.progress", wraps=console.progress) as bars:
        classify.main(["--train", str(training), "--folds", "5"])
    assert bars.call_args_list == [call("folds", total=5, unit="fold")]
    assert f"same folds {expected:.4f}; always the most frequent label {most:.4f}" in capsys.readouterr().err


def test_texts_without_words_are_compared_as_well(tmp_path, capsys):
    rows = [{"text": text, "label": label} for text in ("?!", "", "...") for label in ("a", "b")]
    classify.main(["--train", str(write_jsonl(tmp_path / "t.jsonl", rows)), "--folds", "3"])
    assert "always the most frequent label 0.5000" in capsys.readouterr().err


def test_training_without_a_purpose_is_refused(training, capsys):
    with pytest.raises(SystemExit):
        classify.main(["--train", str(training)])
    assert "name what is asked for: --folds, --model or --predict" in capsys.readouterr().err


def test_messages(training, tmp_path):
    single = write_jsonl(tmp_path / "one.jsonl", [{"text": "a b", "label": "x"}, {"text": "c d", "label": "x"}])
    with pytest.raises(InputError, match="the training texts have 1 label; two or more are needed"):
        classify.main(["--train", str(single), "--model", str(tmp_path / "m")])
    assert not (tmp_path / "m").exists()
    bare = write_jsonl(tmp_path / "bare.jsonl", [{"text": "a b"}])
    with pytest.raises(InputError, match=r"bare\.jsonl: text 1 has no label"):
        classify.main(["--train", str(bare), "--folds", "2"])
    with pytest.raises(InputError, match="folds: 9, but label 'car' has only 5 texts"):
        classify.main(["--train", str(training), "--folds", "9"])
    (tmp_path / "odd.jsonl").write_text("text,label\n")  # a table
    with pytest.raises(InputError, match=r'odd\.jsonl: line 1: not a JSON record such as {"text": ..., "label": ...}'):
        classify.main(["--train", str(tmp_path / "odd.jsonl"), "--folds", "2"])
    with pytest.raises(ArtefactError, match="no text classifier here"):
        classify.main(["--model", str(tmp_path / "none"), "--predict", str(training)])
    with pytest.raises(SystemExit):
        classify.main(["--model", "x"])


def test_texts_to_label_are_read_before_the_fit(training, tmp_path, monkeypatch):
    monkeypatch.setattr(classify, "cross_validate", None)
    monkeypatch.setattr(classify.LabelledTexts, "fit", None)
    for flags in ([], ["--folds", "2"], ["--model", str(tmp_path / "m")]):
        with pytest.raises(InputError, match="missing: no such file"):
            classify.main(["--train", str(training), "--predict", str(tmp_path / "missing"), *flags])
    assert not (tmp_path / "m").exists()


def test_a_graph_of_similar_words_labels_words_that_training_texts_hardly_have(training, tmp_path, capsys):
    """ "wheel" is in one text of each class; the graph says that it is a word like "engine"."""
    rows = [json.loads(line) for line in training.read_text().splitlines()]
    more = [{"text": "wheel", "label": "car"}, {"text": "wheel", "label": "fruit"}]
    train = write_jsonl(tmp_path / "more.jsonl", [*rows, *more])
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "x", "text": "wheel wheel"}])
    labels = {}
    for word in ("engine", "pear"):
        (tmp_path / "graph.tsv").write_text(f"wheel\t{word}\t0.9\nWheel\tnowhere\t0.5\n")
        flags = ["--scales", "inf", "--kernel", "frobenius", "--graph", str(tmp_path / "graph.tsv")]
        classify.main(["--train", str(train), *flags, "--model", str(tmp_path / "m")])
        capsys.readouterr()
        classify.main(["--model", str(tmp_path / "m"), "--predict", str(new)])  # the graph is the saved model's
        labels[word] = json.loads(capsys.readouterr().out)["label"]
    assert labels == {"engine": "car", "pear": "fruit"}


def test_eta_reaches_the_kernel(training, tmp_path):
    classify.main(["--train", str(training), "--model", str(tmp_path / "m"), "--eta", "0.7"])
    data, settings = load(tmp_path / "m")
    kernel = data.fit(settings.pipeline)[0]
    plain = data.fit(ClassifierSettings().pipeline)[0]
    assert kernel.eta == 0.7 and kernel.transform(["car"]).min() > plain.transform(["car"]).min() == 0


def test_graphs_that_are_refused(training, tmp_path, capsys):
    graph = tmp_path / "graph.tsv"
    flags = ["--train", str(training), "--folds", "2", "--graph", str(graph)]
    for text, message in (
        ("car\n", "line 1: two words and a similarity above 0, at most 1, were expected"),
        ("car road 0.5\ncar road 1.5\n", "line 2: two words"),
        ("car road nan\n", "line 1: two words"),
        ("", "no similarities in it"),
        ("car spaceship 0.5\n", "both words of a line must be in the training texts"),
    ):
        graph.write_text(text)
        with pytest.raises(InputError, match=message):
            classify.main(flags)
    with pytest.raises(SystemExit):
        classify.main([*flags, "--graph-texts", str(training)])
    assert "--graph and --graph-texts exclude each other" in capsys.readouterr().err


def test_two_scales_are_enough_for_differences_between_them():
    assert ClassifierSettings(pyramid="laplacian", kernel="rbf", scales=(1.0, 2.0)).scales == (1.0, 2.0)
    with pytest.raises(OptionError, match="needs two scales or more"):
        ClassifierSettings(pyramid="laplacian", kernel="rbf", scales=(1.0,))
