"""Options as command-line flags."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any, TypeVar

from kernelsearch.core.options import Option, Settings

S = TypeVar("S", bound=Settings)


def add_flags(parser: argparse.ArgumentParser, options: Iterable[Option], owner: str = "", title: str | None = None) -> None:
    """Adds `--OWNER.name` flags; values not given stay absent, so that config files and defaults can fill them."""
    group = parser.add_argument_group(title or owner) if (title or owner) else parser
    for option in options:
        stem = f"{owner}.{option.name}" if owner else option.name
        dest = f"{owner}.{option.key}" if owner else option.key
        text = option.help.replace("%", "%%")
        if option.kind is bool and not option.many:
            # Only the switch that changes something is shown; the other one is understood all the same.
            off = f"{owner}.no-{option.name}" if owner else f"no-{option.name}"
            help_on, help_off = (argparse.SUPPRESS, f"don't {text}") if option.default is True else (text, argparse.SUPPRESS)
            group.add_argument(f"--{stem}", dest=dest, action="store_true", default=argparse.SUPPRESS, help=help_on)
            group.add_argument(f"--{off}", dest=dest, action="store_false", default=argparse.SUPPRESS, help=help_off)
            continue
        if option.choices:
            text += f" ({', '.join(map(str, option.choices))})"
        if option.default is not None:
            shown = ",".join(map(str, option.default)) if option.many else option.default
            text += f" [{shown}]"
        metavar = {int: "N", float: "X"}.get(option.kind, "TEXT")
        action, count = "append" if option.repeat else "store", "+" if option.words else None
        group.add_argument(
            f"--{stem}", dest=dest, action=action, nargs=count, default=argparse.SUPPRESS, metavar=metavar, help=text
        )


def collect(arguments: argparse.Namespace, options: Iterable[Option], owner: str = "") -> dict[str, Any]:
    """The checked values that were given on the command line for one owner, by Python name."""
    found = {}
    for option in options:
        dest = f"{owner}.{option.key}" if owner else option.key
        if hasattr(arguments, dest):
            found[option.key] = option.parse(getattr(arguments, dest), owner)
    return found


def read_flags(settings: type[S], arguments: argparse.Namespace) -> S:
    """The settings that were given on the command line, with defaults for the rest."""
    return settings.of(collect(arguments, settings.options, settings.owner))
