"""`fedparity report`: the page of a run again, from what is stored."""

from __future__ import annotations

from dataclasses import replace

from fedparity.cli.console import AsJson, RunFolder, print_json, say


def report_command(run: RunFolder, *, as_json: AsJson = False) -> None:
    """Write a run's report again from what is stored; nothing is run.

    fedparity report runs/demo
    """
    from fedparity import report
    from fedparity.core.imports import without_imports
    from fedparity.experiment.results import REPORT
    from fedparity.experiment.run import Run
    from fedparity.experiment.spec_file import parse
    from fedparity.store import DamagedError, Disk, Store
    from fedparity.store.manifest import differences

    report.require()
    damaged = [name for name in differences(Disk(run)) or [] if name != REPORT]
    if damaged:  # closing the run seals its files as they are, so damage would be hidden
        raise DamagedError(f"{run / damaged[0]}: differs from what was written; see fedparity verify {run}")
    with Store.open(run, create=False) as store:
        found, text = Run.stored(store), None
        if (run / "spec.toml").exists():  # the spec as its author wrote it: the store keeps it filled in
            text = store.disk.read("spec.toml").decode()
            with without_imports():
                found = replace(found, spec=parse(text, str(run / "spec.toml")))
        report.write_report(found, run / REPORT, text)
    if as_json:
        print_json({"run": str(run), "report": str(run / REPORT)})
    else:
        say(f"Report: {run / REPORT}")
