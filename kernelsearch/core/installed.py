"""How this copy of kernelsearch was installed, for messages that say how to install an extra."""

from __future__ import annotations

import shlex
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

from kernelsearch.core.reading import parse_json

DISTRIBUTION = "kernelsearch"


def install_command(extra: str) -> str:
    """The command that installs the packages of `extra`, from where this copy was installed: a checkout, a file or an index.

    Where its file or folder is gone, the packages themselves are named.
    """
    target = f"{DISTRIBUTION}[{extra}]"
    try:
        distribution = metadata.distribution(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return f"pip install -e {shlex.quote(f'{Path(__file__).parents[2]}[{extra}]')}"
    origin = parse_json(distribution.read_text("direct_url.json") or "{}", "direct_url.json")
    url = origin.get("url", "")
    if "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}"
    elif url.startswith("file:"):
        place = Path(unquote(urlsplit(url).path))
        if not place.exists():
            wanted = (text for text in distribution.requires or () if f'extra == "{extra}"' in text.replace("'", '"'))
            return " ".join(["pip install", *(shlex.quote(text.partition(";")[0].strip()) for text in wanted)])
        if place.is_dir():
            editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
            return f"pip install {editable}{shlex.quote(f'{place}[{extra}]')}"
    return f"pip install {shlex.quote(f'{target} @ {url}' if url else target)}"
