"""Specs that come with the package, as TOML files beside this one."""

from __future__ import annotations

from importlib import resources


def read_starter(name: str) -> str:
    """The text of one: `demo` (seven methods on one population of phones) or `compare` (what methods run in)."""
    return (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
