"""A comparison as a LaTeX table, ready for a paper; whatever comes from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fedparity.availability import shown_name
from fedparity.experiment.compare import Comparison, Metric, Stat

BLOCKS = (
    ("accuracy", "avg_client_accuracy", "own_accuracy", "worst_accuracy", "variance_percent2"),
    ("utility_cv", "jain_utility", "coverage"),
    ("selection_gap", "selection_gap_avoidable", "gini", "gini_avoidable"),
)
"""What stands side by side: three narrow tables fit a column where one wide one does not."""
UP, DOWN = "$\\uparrow$", "$\\downarrow$"
SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def latex_escape(text: str) -> str:
    """Text that TeX prints as it is; what does not print is a question mark."""
    return "".join(SPECIAL.get(c, c) if c.isprintable() else "?" for c in text)


def to_latex(found: Comparison) -> str:
    """A booktabs table: means and deviations, the best in bold, a star where the interval leaves out zero."""
    s = found.spec
    shown = {m.key: m for m in found.shown()}
    caption = (
        f"{len(found.methods)} methods on one trace of {s.population.clients} clients"
        f" (availability: {latex_escape(shown_name(s.population.availability))}), {s.rounds} rounds,"
        f" {s.cohort} asked a round:"
        f" mean $\\pm$ standard deviation over {len(found.seeds)} seed{'s' * (len(found.seeds) > 1)}."
        " Best mean in bold."
    )
    if any(_clear(stat) for key in shown for stat in found.stats[key].values()):
        caption += (
            f" A star: the 95\\,\\% bootstrap interval of the paired difference to {latex_escape(found.reference)}"
            " leaves out zero."
        )
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "  \\centering", f"  \\caption{{{caption}}}"]
    for block in BLOCKS:
        metrics = [shown[key] for key in block if key in shown]
        if metrics:
            lines += [f"  {line}" for line in _tabular(found, metrics)]
    return "\n".join([*lines, "\\end{table}"]) + "\n"


def _tabular(found: Comparison, metrics: Sequence[Metric]) -> Iterator[str]:
    yield f"\\begin{{tabular}}{{l{'r' * len(metrics)}}}"
    yield "  \\toprule"
    heads = (f"{latex_escape(m.title)} {UP if m.higher else DOWN}" for m in metrics)
    yield f"  Method & {' & '.join(heads)} \\\\"
    yield "  \\midrule"
    bold = {m.key: _boldest(found, m) for m in metrics}
    for name in found.methods:
        cells = (_tex_cell(found.stats[m.key][name], m, bold=bold[m.key]) for m in metrics)
        yield f"  {latex_escape(name)} & {' & '.join(cells)} \\\\"
    yield "  \\bottomrule"
    yield "\\end{tabular}"


def _boldest(found: Comparison, metric: Metric) -> str | None:
    """The best mean as it is printed; None if all print the same."""
    means = [s.mean for s in found.stats[metric.key].values() if s.mean is not None]
    printed = {f"{mean:.{metric.places}f}" for mean in means}
    best = (max if metric.higher else min)(means, default=None)
    return None if best is None or len(printed) < 2 else f"{best:.{metric.places}f}"


def _tex_cell(stat: Stat, metric: Metric, *, bold: str | None) -> str:
    if stat.mean is None:
        return "--"
    mean = f"{stat.mean:.{metric.places}f}"
    shown = f"\\mathbf{{{mean}}}" if mean == bold else mean
    spread = "" if stat.sd is None else f" \\pm {stat.sd:.{metric.places}f}"
    return f"${shown}{spread}{'^{*}' if _clear(stat) else ''}$"


def _clear(stat: Stat) -> bool:
    """Whether the interval of the difference leaves out zero."""
    return stat.low is not None and stat.high is not None and not stat.low <= 0 <= stat.high
