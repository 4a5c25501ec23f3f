"""The class data archive: made once, used afterwards, and never in the way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsearch.lucene import class_archive, jvm
from tests.conftest import ROOT


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """An empty cache folder; nothing is done at the end of the process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KERNELSEARCH_CLASS_ARCHIVE")
    monkeypatch.setattr(class_archive.atexit, "register", lambda *call: None)
    return tmp_path / "cache" / "kernelsearch" / "java"


@pytest.fixture
def jar(tmp_path) -> Path:
    (tmp_path / "some.jar").write_bytes(b"PK")
    return tmp_path / "some.jar"


def test_one_process_records_classes_until_there_is_an_archive(cache, jar):
    home = jvm.find_java()
    (record,) = jvm.archive_options(home, jar)
    name, _, place = record.partition("=")
    assert name == "-XX:DumpLoadedClassList" and Path(place).parent == cache
    assert jvm.archive_options(home, jar) == []  # another process
    archive = Path(place).with_suffix(".jsa")
    archive.touch()
    assert jvm.archive_options(home, jar) == [f"-XX:SharedArchiveFile={archive}", *jvm.ARCHIVED]
    jar.write_bytes(b"another")
    assert jvm.archive_options(home, jar)[0] not in (record, f"-XX:SharedArchiveFile={archive}")


def test_building_and_searching_have_archives_of_their_own(cache, jar):
    home = jvm.find_java()
    (building,) = jvm.archive_options(home, jar, building=True)
    (searching,) = jvm.archive_options(home, jar)
    assert building != searching
    for record in (building, searching):
        Path(record.partition("=")[2]).with_suffix(".jsa").touch()
    used = {jvm.archive_options(home, jar, building=flag)[0] for flag in (True, False)}
    assert len(used) == 2


def test_the_process_that_recorded_starts_another_one_at_its_end(cache, jar, monkeypatch):
    registered, started = [], []
    monkeypatch.setattr(class_archive.atexit, "register", lambda *call: registered.append(call))
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda command, **options: started.append((command, options)))
    home = jvm.find_java()
    (record,) = jvm.archive_options(home, jar)
    jvm.archive_options(home, jar)
    ((function, *arguments),) = registered
    function(*arguments)
    ((command, options),) = started
    place = record.partition("=")[2]
    paths = (home / "bin" / "java", jar, place, Path(place).with_suffix(".jsa"))
    assert command == [sys.executable, "-m", "kernelsearch.lucene.class_archive", *map(str, paths)]
    assert options["cwd"] == ROOT
    assert options["start_new_session"] and options["stdout"] == options["stderr"] == subprocess.DEVNULL
    arguments[-1] += 1  # as in a forked process
    function(*arguments)
    assert len(started) == 1
    monkeypatch.undo()
    Path(place).write_text("java/lang/Object id: 0\n")
    subprocess.run(command, cwd=options["cwd"], check=True)
    assert Path(place).with_suffix(".jsa").exists() and not Path(place).exists()


def test_a_record_that_nothing_was_made_of_is_replaced_after_a_day(cache, jar):
    home = jvm.find_java()
    (record,) = jvm.archive_options(home, jar)
    place = record.partition("=")[2]
    os.utime(place, (0, 0))
    assert jvm.archive_options(home, jar) == [record]
    assert os.stat(place).st_mtime > 0


def test_without_a_folder_of_ones_own_there_is_no_archive(cache, jar, monkeypatch):
    home = jvm.find_java()
    monkeypatch.setenv("KERNELSEARCH_CLASS_ARCHIVE", "off")
    assert jvm.archive_options(home, jar) == [] and not cache.exists()
    monkeypatch.delenv("KERNELSEARCH_CLASS_ARCHIVE")
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    assert jvm.archive_options(home, jar) == []
    cache.rmdir()
    cache.write_text("a file in the place of the folder")
    assert jvm.archive_options(home, jar) == []


def test_java_accepts_the_archive_that_is_made(cache, jar, tmp_path):
    home = jvm.find_java()
    record, archive = tmp_path / "record", tmp_path / "archive.jsa"
    record.write_text("java/lang/Object id: 0\njava/util/ArrayList id: 1\n")
    class_archive.make_archive(home / "bin" / "java", jar, record, archive)
    assert archive.exists() and not record.exists() and not archive.with_suffix(".unfinished").exists()
    command = [home / "bin" / "java", f"-XX:SharedArchiveFile={archive}", "-Xshare:on", "-cp", jar, "-version"]
    assert subprocess.run(command, capture_output=True).returncode == 0
    # One of the right form with other contents is ignored without a word.
    content = bytearray(archive.read_bytes())
    chance = random.Random(1)
    for place in range(4096, len(content), 512):
        content[place] = chance.randrange(256)
    archive.chmod(0o600)
    archive.write_bytes(content)
    command = [home / "bin" / "java", f"-XX:SharedArchiveFile={archive}", *jvm.ARCHIVED, "-cp", jar, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and not done.stdout and "Runtime Environment" in done.stderr


def test_a_failure_to_make_it_leaves_none(cache, jar, tmp_path):
    record, archive = tmp_path / "record", tmp_path / "archive.jsa"
    record.touch()
    class_archive.make_archive(Path("/bin/false"), jar, record, archive)
    assert not archive.exists() and record.exists()


def test_a_damaged_archive_changes_nothing_and_prints_nothing(cache):
    (record,) = jvm.archive_options(jvm.find_java(), jvm.find_jar())
    Path(record.partition("=")[2]).with_suffix(".jsa").write_bytes(b"no archive" * 1000)
    program = "from kernelsearch.lucene import jvm; print(jvm.bridge() is not None)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert (result.stdout, result.stderr) == ("True\n", "")
