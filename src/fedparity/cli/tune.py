"""`fedparity tune`: the learning rate of each method, before they are compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import INTERRUPTED, AsJson, Overrides, print_json, say, show_table, split_list
from fedparity.cli.run import Rounds
from fedparity.core.errors import ConfigError

if TYPE_CHECKING:
    from fedparity.experiment.tune import Tuned


def tune_command(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A spec file; every method in it is tuned.")],
    *,
    rates: Annotated[str, typer.Option(metavar="A,B,...", help="Local learning rates to try.")] = ".01,.03,.1,.3,1",
    seeds: Annotated[
        int | None, typer.Option(help="Seeds to tune on, none of them the spec's.", show_default="as many")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write the tuned spec.", show_default="SPEC with .tuned.toml")
    ] = None,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Each method's local learning rate, by held-back training samples on seeds of their own; writes a tuned spec.

    fedparity tune my.toml --rates .01,.1,1
    """
    from fedparity.core.files import write_text
    from fedparity.experiment.runner import Callbacks, execute, prepare
    from fedparity.experiment.spec_file import load, to_toml
    from fedparity.experiment.stop import Stop
    from fedparity.experiment.tune import grid, tuned, with_rates

    loaded = load(spec, overrides or [])
    tried = _rates(rates)
    wide = grid(loaded, tried, seeds)
    with Rounds(wide, quiet=as_json) as rounds:
        trace = prepare(wide, rounds.prepare)
    with Stop() as stop, Rounds(wide, quiet=as_json) as rounds:
        told = Callbacks(rounds.tell, lambda: stop.asked, lambda: stop.overdue, rounds.prepare)
        results = execute(wide, trace=trace, callbacks=told)
    found = tuned(loaded, tried, results)
    target = out or spec.with_suffix(".tuned.toml")
    write_text(target, to_toml(with_rates(loaded, found)))
    if as_json:
        print_json(_json(found, target))
    else:
        _show(found, target)
    if not found.complete:
        say("Stopped early: the rates are those of the rounds done so far.", stderr=True)
        raise typer.Exit(INTERRUPTED)


def _rates(text: str) -> list[float]:
    try:
        return [float(part) for part in split_list(text)]
    except ValueError:
        raise ConfigError(f"--rates {text!r} must be numbers parted by commas, for example .01,.1,1") from None


def _json(found: Tuned, target: Path) -> dict[str, Any]:
    return {
        "rates": list(found.rates),
        "seeds": list(found.seeds),
        "complete": found.complete,
        "methods": [
            {
                "method": name,
                "best": found.best(name),
                "at_the_edge": found.at_the_edge(name),
                "accuracy": found.means[i].tolist(),
                "accuracy_sd": found.accuracy[i].std(axis=1).tolist(),
            }
            for i, name in enumerate(found.methods)
        ],
        "spec": str(target),
    }


def _show(found: Tuned, target: Path) -> None:
    header = ["method", *(f"{rate:g}" for rate in found.rates), "best"]
    rows = [
        [name, *(f"{mean:.3f}" for mean in found.means[i]), f"{found.best(name):g}"]
        for i, name in enumerate(found.methods)
    ]
    show_table(header, rows)
    edge = [name for name in found.methods if found.at_the_edge(name)]
    if edge:
        say(f"At the end of the range, so try rates beyond it: {', '.join(edge)}.")
    say(f"Accuracy on training samples that were held back, seed {', '.join(map(str, found.seeds))}.")
    say(f"Tuned spec: {target}")
