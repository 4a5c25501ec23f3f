"""docs/which-method.md agrees with the page that its table summarises."""

import re

from tests.conftest import ROOT

#: Rows of the table in docs/which-method.md, by their first words, and the conditions of docs/reproductions/auto.md.
KINDS = {
    "topics with many": r"(cran|cacm|cisi|npl|nfcorpus dev|nfcorpus)",
    "documents four times": r".*, long documents",
    "documents cut": r"(cran|cacm|cisi|nfcorpus dev), short documents",
    "60 words": r".*, abstracts",
    "claims": r"scifact( train)?",
    "names": r"zerozero",
    "known items:": r".*, known items",
    "known items, documents cut": r".*, known items, short documents",
    "noisy known items:": r".*, noisy known items",
    "noisy known items, documents cut": r".*, noisy known items, short documents",
    "posts about": r".*, posts",
    "posts, documents cut": r".*, posts, short documents",
    "titles": r".*, titles",
    "last sentences": r".*, conclusions",
}


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_changes_by_kind_of_query_agree_with_the_measurements():
    measured = {}
    for line in (ROOT / "docs" / "reproductions" / "auto.md").read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"\|[^|]+\| \d+ \| \.\d{4} \|.*", line) and len(row := cells(line)) == 9:
            # `auto` has weights that were chosen without the collection.
            measured[row[0]] = [float(cell.split()[0]) for cell in (*row[3:7], row[8])]
    assert len(measured) == 67
    page = (ROOT / "docs" / "which-method.md").read_text(encoding="utf-8")
    for start, pattern in KINDS.items():
        [line] = [line for line in page.splitlines() if line.startswith(f"| {start}") and re.search(r"[+-]\d", line)]
        rows = [values for name, values in measured.items() if re.fullmatch(pattern, name)]
        for shown, values in zip(cells(line)[1:], zip(*rows, strict=True), strict=True):
            low, high = (float(end) for end in (shown.split(" to ") * 2)[:2])
            assert abs(low - min(values)) <= 0.5 and abs(high - max(values)) <= 0.5, (line, shown, values)
