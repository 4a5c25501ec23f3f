"""The page of speeds says where a peer is faster and what was not compared; a run of some groups keeps the other sections."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench.load import run_load
from tools.bench.speed.measuring import Bench, Pair, Peers, Row, cpu_time, measure
from tools.bench.speed.page import Section, cells, render, write_page

SEARCH, BASIS = Section("Search", "Notes on search."), Section("Basis", "Notes on bases.")


def row(path: str, ratio: float, documents: int = 1000, ours: float = 1.0) -> Row:
    return Row(path, "peer", documents, "CPU ms", ours, ours / ratio, ratio, ratio - 0.1, ratio + 0.1, 5)


def test_a_row_has_medians_and_the_range_of_the_ratios_by_turns():
    ours, theirs = iter([9.0, 1.0, 3.0, 2.0]), iter([9.0, 2.0, 2.0, 2.0])
    pair = Pair("path", "peer", 10, lambda: next(ours), lambda: next(theirs), warm_up=1)
    assert measure(pair, 3) == Row("path", "peer", 10, "CPU ms", 2.0, 2.0, 1.0, 0.5, 1.5, 3)


def test_a_path_without_a_peer_has_the_range_of_its_own_costs():
    costs = iter([4.0, 1.0, 2.0])
    measured = measure(Pair("path", "", 10, lambda: next(costs), warm_up=0), 3)
    assert (measured.ours, measured.theirs, measured.ratio, measured.least, measured.most) == (2.0, None, None, 1.0, 4.0)


def test_what_is_measured_once_has_no_warm_up_and_no_range():
    costs = iter([4.0])
    measured = measure(Pair("path", "peer", 10, lambda: next(costs), lambda: 2.0, warm_up=3, once=True), 5)
    assert (measured.ratio, measured.repetitions) == (2.0, 1)
    assert cells(measured, [measured])[7] == ""


def test_a_section_names_the_paths_at_which_a_peer_takes_less():
    rows = [row("search", 0.5), row("basis", 1.5)]
    text = render(SEARCH, rows, {"gensim": "not there"}, 2.0, 90.0)
    assert "The peer takes less: basis (1,000): peer, 1.50." in text
    assert "did not run: gensim (not there)." in text
    assert "nowhere in this table" in render(SEARCH, rows[:1], {}, 2.0, 90.0)


def test_a_section_says_that_the_machine_was_shared():
    assert "other programs shared" in render(SEARCH, [row("search", 0.5)], {}, 1000.0, 90.0)
    assert "other programs shared" not in render(SEARCH, [row("search", 0.5)], {}, 0.1, 90.0)


def test_growth_is_relative_to_the_smallest_collection_of_the_same_row():
    small, large = row("search", 0.5, 1000, 2.0), row("search", 0.25, 10_000, 5.0)
    other = row("basis", 0.5, 10_000, 7.0)
    rows = [small, large, other]
    assert [cells(record, rows)[-1] for record in rows] == ["", "2.5 / 5", ""]


def test_sections_that_were_not_measured_stay(tmp_path):
    page = tmp_path / "speed.md"
    for section, path in ((BASIS, "old basis"), (SEARCH, "old search"), (BASIS, "new basis")):
        write_page(page, {section.title: render(section, [row(path, 0.5)], {}, 1.0, 90.0)}, [SEARCH, BASIS])
    text = page.read_text()
    assert text.index("## Search") < text.index("old search") < text.index("## Basis") < text.index("new basis")
    assert "old basis" not in text and text.count("# Speed beside") == 1


def test_the_page_says_how_long_its_sections_took_where_all_of_them_say_it(tmp_path):
    page = tmp_path / "speed.md"
    write_page(page, {"Search": render(SEARCH, [row("search", 0.5)], {}, 1.0, 61.0)}, [SEARCH, BASIS])
    assert "minutes in all" not in page.read_text()
    write_page(page, {"Basis": render(BASIS, [row("basis", 0.5)], {}, 1.0, 200.4)}, [SEARCH, BASIS])
    text = page.read_text()
    assert "for how long it was measured: 4.3 minutes in all." in text and "This took 61 seconds." in text


def test_a_peer_that_is_not_installed_is_reported_and_left_out(tmp_path):
    absent, lacking = Peers(tmp_path / "python"), Peers(Path(sys.executable))
    bench = Bench(tmp_path, (10,), 1, lacking, absent)
    bench.compare("path", "peer", 10, lambda: 1.0, absent.task("prcl", tmp_path))
    bench.compare("path", "peer", 10, lambda: 1.0, lacking.task("gensim", tmp_path))
    lacking.close()
    assert bench.rows == []
    assert "does not exist" in absent.missing["prcl"] and "No module named 'gensim'" in lacking.missing["gensim"]


def test_cpu_time_counts_the_processes_that_the_work_starts():
    busy = "sum(range(3_000_000))"
    alone, started = (cpu_time(work)() for work in (int, lambda: subprocess.run([sys.executable, "-c", busy], check=True)))
    assert started > alone + 10


def test_the_load_generator_counts_answers_errors_and_latencies():
    code = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200 if self.path == "/good" else 404)
        self.send_header("Content-Length", "70000")
        self.end_headers()
        self.wfile.write(b"x" * 70000)
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline())
            good = run_load(port, [b"GET /good HTTP/1.1\r\nHost: x\r\n\r\n"], 3, 0.2)
            bad = run_load(port, [b"GET /bad HTTP/1.1\r\nHost: x\r\n\r\n"], 2, 0.1)
        finally:
            server.kill()
    assert good.requests >= 3 and good.errors == 0 and len(good.latencies) == good.requests
    assert bad.errors == bad.requests >= 2
    assert 0 < good.percentile(50) <= good.percentile(99) and good.rate == pytest.approx(good.requests / good.seconds)
