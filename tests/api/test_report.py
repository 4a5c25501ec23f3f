"""The HTML page: what is in it, and what it does in a browser."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from kernelsearch import evaluate as verb
from kernelsearch.plots.svg import Plot, round_ticks

VOID = {"meta", "link", "br"}


class Checker(HTMLParser):
    """Fails on tags that are closed in the wrong order and notes everything that would be fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.counts = [], [], {}

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.fetched += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page of three runs, with texts that would break it if they weren't escaped."""
    folder = tmp_path_factory.mktemp("page")
    with open(folder / "qrels", "w") as qrels, open(folder / "topics.tsv", "w") as topics:
        for topic in range(12):
            qrels.write(f"{topic} 0 d{topic % 4} 1\n{topic} 0 d5 1\n")
            topics.write(f'{topic}\t<script>alert({topic})</script> & "more"\n')
    runs = []
    for shift, name in enumerate(("base", "pert-0.1", "pert-0.5")):
        runs.append(folder / f"{name}.txt")
        runs[-1].write_text(
            "".join(
                f"{topic} Q0 d{(rank * (1 + shift) + topic) % 7} {rank} {10 - rank} t\n"
                for topic in range(12)
                for rank in range(7)
            )
        )
    flags = ["--qrels", str(folder / "qrels"), "--baseline", str(runs[0]), *map(str, runs), "--measures", "AP,P@3"]
    verb.main(
        [*flags, "--topics", str(folder / "topics.tsv"), "--html", str(folder / "page.html"), "--output", str(folder / "o")]
    )
    return folder / "page.html"


def test_the_page_is_whole_and_fetches_nothing(page):
    checker = Checker()
    checker.feed(page.read_text())
    assert checker.open == [] and checker.fetched == ["data:,"]
    # two runs against the baseline by two measures: differences, then risk (two plots a measure), then precision-recall
    assert checker.counts["svg"] == 2 * 2 + 2 * 2 + 1 and checker.counts["script"] == 1
    assert "&lt;script&gt;alert(3)&lt;/script&gt; &amp; &quot;more&quot;" in page.read_text()


def test_a_page_without_baseline_or_texts(page, tmp_path, capsys):
    folder = page.parent
    verb.main(["--qrels", str(folder / "qrels"), str(folder / "base.txt"), "--html", str(tmp_path / "p.html")])
    checker = Checker()
    checker.feed((tmp_path / "p.html").read_text())
    assert checker.counts["svg"] == 1 and checker.open == []


def test_plots():
    assert round_ticks(0, 1) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert round_ticks(-0.31, 0.47) == pytest.approx([-0.2, 0, 0.2, 0.4])
    plot = Plot((0, 10), (-1, 1))
    assert plot.y(1) == plot.TOP and plot.y(-1) == plot.height - plot.BOTTOM and plot.x(0) == plot.LEFT
    plot.bars([0.5, -0.5], ["a<b", "c"])
    heights = [float(value) for value in re.findall(r'height="([\d.]+)" fill', plot.svg("t"))]
    assert heights[0] == pytest.approx(heights[1]) and "a&lt;b" in plot.svg("t")
    assert Plot((3, 3), (2, 2)).x(3) == pytest.approx(Plot((2.5, 3.5), (0, 1)).x(3))


PROBE = """
<script>
window.addEventListener("load", () => {
  const out = {};
  const table = document.querySelectorAll("table.sortable")[1];
  const heads = table.tHead.rows[0].cells;
  const column = place => Array.from(table.tBodies[0].rows, row => row.cells[place].textContent);
  const difference = Array.from(heads).findIndex(head => head.textContent === "difference");
  out.before = column(difference);
  heads[difference].querySelector("button").click();
  out.descending = column(difference);
  heads[difference].querySelector("button").click();
  out.ascending = column(difference);
  heads[0].querySelector("button").click();
  out.names = column(0);
  const chooser = document.querySelector(".chooser");
  chooser.value = "P@3";
  chooser.dispatchEvent(new Event("change"));
  const panels = Array.from(chooser.closest(".panels").querySelectorAll(".panel"));
  out.shown = panels.filter(panel => !panel.hidden).map(panel => panel.dataset.measure);
  for (const panel of document.querySelectorAll(".panel")) panel.hidden = false;
  out.plots = Array.from(document.querySelectorAll("svg"), svg => {
    const marks = Array.from(svg.querySelectorAll(".mark"), mark => mark.getBoundingClientRect());
    const frame = svg.getBoundingClientRect();
    return {
      marks: marks.length,
      drawn: frame.width > 100 && frame.height > 50 && marks.some(box => box.width > 1 && box.height > 1),
      inside: marks.every(
        box => box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1
          && box.bottom <= frame.bottom + 1
      ),
    };
  });
  const pre = document.createElement("pre");
  pre.id = "probe";
  pre.textContent = JSON.stringify(out);
  document.body.append(pre);
});
</script>
"""


@pytest.fixture(scope="module")
def probed(page):
    """What a real browser makes of the page: the probe's findings and the browser's own messages."""
    browser = next(
        (result for name in ("chromium", "chromium-browser", "google-chrome") if (result := shutil.which(name))), None
    )
    if browser is None:
        pytest.skip("no chromium on the path: the page's behaviour in a browser isn't tested")
    probe = page.with_name("probed.html")
    probe.write_text(page.read_text().replace("</head>", PROBE + "</head>"))
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={page.parent / 'chromium'}",
    ]
    done = subprocess.run(
        [browser, *flags, "--virtual-time-budget=3000", "--dump-dom", f"file://{probe}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    result = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.S)
    assert result, done.stderr[-2000:]
    text = result[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return json.loads(text), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def test_no_errors_in_the_browser(probed):
    assert probed[1] == []


def test_tables_sort_in_the_browser(probed):
    result = probed[0]
    assert result["descending"] == sorted(result["before"], key=float, reverse=True) != result["before"]
    assert result["ascending"] == sorted(result["before"], key=float)
    assert result["names"] == sorted(result["names"])


def test_the_menu_changes_the_measure(probed):
    assert probed[0]["shown"] == ["P@3"]


def test_all_plots_are_drawn(probed):
    assert len(probed[0]["plots"]) == 9
    for plot in probed[0]["plots"]:
        assert plot["marks"] > 0 and plot["drawn"] and plot["inside"]
