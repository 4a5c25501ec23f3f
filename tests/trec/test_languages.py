"""The language of texts, by script or by frequent words."""

import json

import pytest

from kernelsearch import index
from kernelsearch.trec.languages import LanguageGuess
from tests.conftest import DEMO

TEXTS = {
    "de": "Der Hahn tropft, und die Dichtung ist nicht dicht. Mit dem Schlüssel wird das Ventil auf der Leitung geschlossen.",
    "fr": "Les élèves de l'école apprennent les mathématiques dans la classe, et le robinet est fermé pour une semaine.",
    "pt": "A torneira não fecha, e os canos da cozinha foram trocados em um dia. Uma das peças são mais caras do que outras.",
    "zh": "更换水龙头的垫圈。先找到故障再更换保险丝。",
    "ja": "蛇口のパッキンを交換してください。ヒューズが切れました。",
    "ru": "Замените прокладку крана и закройте вентиль.",
}


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_told_apart(code):
    guess = LanguageGuess()
    for _ in range(3):
        guess.add(TEXTS[code])
    assert guess.best == code


@pytest.mark.parametrize("text", ["", "42 17", "washer, tap, cartridge", "der the le la el and und et"])
def test_what_is_not_clear_is_not_guessed(text):
    guess = LanguageGuess()
    guess.add(text)
    assert guess.best is None


def test_the_bundled_collection_is_english():
    guess = LanguageGuess()
    for line in (DEMO / "corpus.jsonl").read_text(encoding="utf-8").splitlines():
        guess.add(json.loads(line)["contents"])
    assert guess.best == "en"


def test_index_advises_the_language(tmp_path, capsys, caplog):
    file = tmp_path / "texte.jsonl"
    file.write_text("\n".join(json.dumps({"id": number, "text": TEXTS["de"]}) for number in range(3)))
    with caplog.at_level("WARNING", logger="kernelsearch"):
        index.main(["--input", str(file), "--index", str(tmp_path / "a")])
        assert f"{file}: the texts seem to be German, but are analysed as English; language='de'" in caplog.text
        caplog.clear()
        index.main(["--input", str(file), "--index", str(tmp_path / "b"), "--language", "de"])
        assert caplog.text == ""
