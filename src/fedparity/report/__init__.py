"""The report: one HTML file that holds everything and asks nobody for anything.

`render` gives the page as text, `write_report` puts it into a file, whole or not at all. The page loads nothing, runs
one script of ours (`frame`; its policy forbids any other) and reads without it, in light, dark, print and at phone
width.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any

from fedparity.core import checks
from fedparity.core.errors import ConfigError
from fedparity.core.files import write_text
from fedparity.report.frame import document

if TYPE_CHECKING:
    from fedparity.experiment.run import Run

__all__ = ["fill", "render", "require", "write_report"]


def require() -> None:
    """Refuse now rather than after a long run if the page could not be written."""
    try:
        import jinja2  # noqa: F401 - only whether it is there
    except ImportError as error:
        raise ConfigError("the report needs Jinja2; pip install 'fedparity[report]'") from error


def render(run: Run, spec_text: str | None = None) -> str:
    """The page; `spec_text` is the spec as its author wrote it, if that is at hand. Same run, same bytes."""
    require()
    from fedparity.experiment.run import Run
    from fedparity.report.page import choices, context

    checks.instance("run", run, Run, "Run.open(folder) opens one")
    found = context(run, spec_text)
    return document(
        run.spec.name, fill("page.html.j2", found), style=choices(len(found["strip"].tabs), len(run.methods))
    )


def fill(name: str, context: Mapping[str, Any]) -> str:
    """The body of a page from its template: text is escaped, and what would turn or hide other text is replaced."""
    require()
    return str(_environment().get_template(name).render(context).strip()) + "\n"


@cache
def _environment() -> Any:
    """What fills templates; kept, since compiling a template takes longer than filling it."""
    import jinja2
    import markupsafe

    from fedparity.report.frame import template
    from fedparity.report.svg import printable

    def plain(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
            return printable(value)
        return value

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(template),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_report(run: Run, path: str | PathLike[str], spec_text: str | None = None) -> None:
    """Write the page to `path`."""
    write_text(path, render(run, spec_text))
