"""What a broken law looks like: one line that names the component, the law and the case."""

from __future__ import annotations

from fedparity.core.reprs import one_line


class LawError(AssertionError):
    """A component breaks a law that every one of its kind keeps."""

    def __init__(self, component: object, law: str, case: object, found: object = None) -> None:
        said = "" if found is None else f": {found if isinstance(found, str) else one_line(found)}"
        super().__init__(f"{one_line(component)} breaks the law {law!r}, case {case}{said}")
        self.component, self.law, self.case = component, law, case


def hold(condition: object, component: object, law: str, case: object, found: object = None) -> None:
    """Go on if the law held in this case."""
    if not bool(condition):
        raise LawError(component, law, case, found)
