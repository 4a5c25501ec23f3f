"""The Dockerfile names files, extras, flags and ports that exist."""

from __future__ import annotations

import configparser
import json
import re
from pathlib import Path

from kernelsearch.serve.settings import ServeSettings

ROOT = Path(__file__).parents[2]
#: The instructions, each with the lines that continue it, without comments.
INSTRUCTIONS = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")


def test_files_and_extras_that_are_installed_exist():
    named = set(re.findall(r"-c (\S+)", INSTRUCTIONS))
    assert named and all((ROOT / name).is_file() for name in named)
    declared = configparser.ConfigParser()
    declared.read(ROOT / "setup.cfg")
    extras = re.findall(r"'\.\[([\w,]+)\]'", INSTRUCTIONS)
    assert extras and set(",".join(extras).split(",")) <= set(declared["options.extras_require"])


def test_the_service_is_started_with_its_flags_and_watched_at_its_port():
    verb, *command = json.loads(re.search(r"^ENTRYPOINT (.*)$", INSTRUCTIONS, re.MULTILINE)[1])[1:]
    flags = [word for word in command if word.startswith("--")]
    known = {f"--{declared.name}" for declared in ServeSettings.options}
    assert verb == "serve" and flags and set(flags) <= known
    port = str(ServeSettings().port)
    assert re.search(r"^EXPOSE (\d+)$", INSTRUCTIONS, re.MULTILINE)[1] == port
    assert f"http://127.0.0.1:{port}/health" in re.search(r"^HEALTHCHECK .*$", INSTRUCTIONS, re.MULTILINE)[0]
    assert not re.search(r"^USER (root|0)$", INSTRUCTIONS, re.MULTILINE) and "\nUSER " in INSTRUCTIONS
