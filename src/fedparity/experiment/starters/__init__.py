"""Specs that come with the package, as TOML files beside this one."""

from __future__ import annotations

from importlib import resources


def read_starter(name: str) -> str:
    """The text of one: `demo` (nine methods), `compare` (what methods run in), `custom` (one's own, in comments)."""
    return (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
