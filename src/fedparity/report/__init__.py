"""The report: one HTML file that holds everything and asks nobody for anything.

`render` gives the page as text, `write_report` puts it into a file, whole or not at all. The page has no script, loads
nothing (its content security policy forbids both) and reads the same in light, dark, print and at phone width.
"""

from __future__ import annotations

from importlib import resources
from os import PathLike
from typing import TYPE_CHECKING

from fedparity.core.errors import ConfigError
from fedparity.core.files import write_text

if TYPE_CHECKING:
    from fedparity.experiment.run import Run

__all__ = ["render", "require", "write_report"]


def require() -> None:
    """Refuse now rather than after a long run if the page could not be written."""
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ConfigError("the report needs Jinja2; pip install 'fedparity[report]'") from error


def render(run: Run, spec_text: str | None = None) -> str:
    """The page; `spec_text` is the spec as its author wrote it, if that is at hand. Same run, same bytes."""
    require()
    import jinja2

    from fedparity.report.page import context

    loader = jinja2.FunctionLoader(_template)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2").render(context(run, spec_text)).strip() + "\n"


def write_report(run: Run, path: str | PathLike[str], spec_text: str | None = None) -> None:
    """Write the page to `path`."""
    write_text(path, render(run, spec_text))


def _template(name: str) -> str:
    return (resources.files("fedparity.report") / "templates" / name).read_text(encoding="utf-8")
