"""Which language texts are in, for a hint where an index is built with another analyser."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

#: Frequent words of languages in Latin script; words that two of them share are left out.
_WORDS = {
    "en": "the and of to is that with for was this are have from which",
    "de": "der die und den das ist nicht mit dem ein eine auch auf für sich",
    "fr": "le les des et est une dans pour qui sur pas avec du au sont",
    "es": "el los las y una por con para del como más pero sus está",
    "pt": "os da do em um uma com não para dos ao mais foi das são",
    "it": "il che di della per una sono con gli del è anche nel alla",
    "nl": "het een van dat niet zijn voor met ook aan maar bij wordt",
    "sv": "och att det som på är av för inte med till den har",
}
_LANGUAGES_OF = Counter(word for words in _WORDS.values() for word in set(words.split()))
_FREQUENT = {word: language for language, words in _WORDS.items() for word in words.split() if _LANGUAGES_OF[word] == 1}
#: The language of a script, by the first word of the Unicode names of its letters. Han with Kana is Japanese.
_SCRIPTS = {
    **{"CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "CYRILLIC": "ru", "ARABIC": "ar"},
    **{"DEVANAGARI": "hi", "BENGALI": "bn", "THAI": "th", "TELUGU": "te"},
}
#: Names of the languages, for messages.
NAMES = {
    **{"de": "German", "fr": "French", "es": "Spanish", "pt": "Portuguese", "it": "Italian", "nl": "Dutch", "sv": "Swedish"},
    **{"zh": "Chinese", "ja": "Japanese", "ko": "Korean", "ru": "Russian", "ar": "Arabic", "hi": "Hindi", "bn": "Bengali"},
    **{"th": "Thai", "te": "Telugu", "en": "English"},
}
#: Characters that are looked at per text.
SAMPLE = 2000
#: Frequent words that must be found before a language in Latin script is named, and the share that must be in one language.
ENOUGH, SHARE = 10, 0.7


class LanguageGuess:
    """Counts letters and frequent words of texts; `best` is the language that they are in, None where that is not clear."""

    def __init__(self) -> None:
        self._scripts: Counter[str] = Counter()
        self._words: Counter[str] = Counter()

    def add(self, text: str) -> None:
        """Counts the beginning of a text."""
        for letter in filter(str.isalpha, text[:SAMPLE:4]):
            self._scripts[unicodedata.name(letter, "").partition(" ")[0]] += 1
        words = re.findall(r"[^\W\d_]+", text[:SAMPLE].lower())
        self._words.update(_FREQUENT[word] for word in words if word in _FREQUENT)

    @property
    def best(self) -> str | None:
        """The code of the language.

        >>> guess = LanguageGuess()
        >>> guess.add("Replace the washer of the tap. " * 10)
        >>> guess.best
        'en'
        """
        letters = sum(self._scripts.values())
        letters_by_language: Counter[str] = Counter()
        for script, count in self._scripts.items():
            letters_by_language[_SCRIPTS.get(script, "")] += count
        if letters_by_language["ja"] > letters / 10:
            letters_by_language["ja"] += letters_by_language.pop("zh", 0)
        code, count = max(letters_by_language.items(), key=lambda item: item[1], default=("", 0))
        if code and count > letters / 2:
            return code
        language, count = max(self._words.items(), key=lambda item: item[1], default=("", 0))
        return language if count >= ENOUGH and count >= SHARE * sum(self._words.values()) else None
