"""A comparison as a LaTeX table, ready for a paper; whatever comes from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedparity.availability import shown_name
from fedparity.experiment.compare import Comparison
from fedparity.metrics import printed
from fedparity.metrics.measures import heading, higher_is_better

UP, DOWN = "$\\uparrow$", "$\\downarrow$"
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\char34{}",
    "π": r"$\pi$", "β": r"$\beta$", "û": r"\^{u}", "²": r"\textsuperscript{2}", "Σ": r"$\Sigma$", "×": r"$\times$",
    "±": r"$\pm$", "≤": r"$\leq$", "≥": r"$\geq$", "−": "$-$", "∞": r"$\infty$", "–": "--", "—": "---",
}  # fmt: skip
"""What TeX takes otherwise, and the signs of our headings: pdflatex has no Greek letter outside a formula."""


def latex_escape(text: str) -> str:
    """Text that TeX prints as it is; what does not print is a question mark."""
    return "".join(SPECIAL.get(c, c) if c.isprintable() else "?" for c in text)


def to_latex(found: Comparison, erased: int = 0) -> str:
    """A booktabs table: means and deviations, who leads in bold, a star at what is told apart.

    erased: how many clients were erased from the runs.
    """
    s, gone = found.spec, f", {erased} of them erased" if erased else ""
    caption = (
        f"{len(found.methods)} methods on one trace of {s.population.clients} clients"
        f" (availability: {latex_escape(shown_name(s.population.shown))}){gone}, {s.rounds} rounds,"
        f" {s.asked} asked per round:"
        f" mean $\\pm$ standard deviation over {len(found.seeds)} seed{'s' * (len(found.seeds) > 1)}."
        f" In bold: {found.table.led_by}. {latex_escape(found.note())}"
    ).rstrip()
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "  \\centering", f"  \\caption{{{caption}}}"]
    for keys in found.blocks():
        lines += [f"  {line}" for line in _tabular(found, keys)]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


def _tabular(found: Comparison, keys: Sequence[str]) -> Iterator[str]:
    yield f"\\begin{{tabular}}{{l{'r' * len(keys)}}}"
    yield "  \\toprule"
    heads = (f"{latex_escape(heading(key))} {UP if higher_is_better(key) else DOWN}" for key in keys)
    yield f"  Method & {' & '.join(heads)} \\\\"
    yield "  \\midrule"
    for name in found.methods:
        yield f"  {latex_escape(name)} & {' & '.join(_tex_cell(found, key, name) for key in keys)} \\\\"
    yield "  \\bottomrule"
    yield "\\end{tabular}"


def _tex_cell(found: Comparison, key: str, name: str) -> str:
    """Mean and deviation; who leads in bold, a star at what is told apart from the reference."""
    stat, leaders = found.stats[key][name], found.table.leaders(key)
    if stat.mean is None:
        return "--"
    mean = printed(key, stat.mean).replace(" %", "\\,\\%")
    leads = leaders is not None and name in leaders.all and found.table.told_apart(key)
    shown = f"\\mathbf{{{mean}}}" if leads else mean
    spread = "" if stat.sd is None else f" \\pm {printed(key, stat.sd).removesuffix(' %')}"
    return f"${shown}{spread}{'^{*}' if stat.told_apart else ''}$"
