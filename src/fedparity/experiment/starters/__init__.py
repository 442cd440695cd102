"""Specs that come with the package, as TOML files beside this one."""

from __future__ import annotations

from importlib import resources


def read_starter(name: str) -> str:
    """The text of one: `demo` (nine methods, availability that tells the data) or `compare` (what methods run in)."""
    return (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
