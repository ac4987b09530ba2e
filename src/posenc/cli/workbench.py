"""The workbench: ``run``, ``report``, ``results``."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from posenc.cli.ranks import team_of
from posenc.cli.terminal import console, refuse_device
from posenc.training.distributed import Team

Names = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")]
Numbers = Annotated[tuple[int, ...] | None, arg(metavar="N ..")]


def run(
    study: Positional[str],
    source: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: str = "quick",
    panels: Names = None,
    schemes: Names = None,
    seeds: Numbers = None,
    device: str = "cpu",
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
    yes: bool = False,
    tensorboard: Annotated[Path | None, arg(metavar="DIR")] = None,
) -> int:
    """Train a study's models, or go on where an earlier run stopped, and write its page.

    What is finished stays finished: run the same command again after a crash, or with more schemes or seeds.

    Try:

    posenc run latin-squares

    posenc run latin-squares --schemes 2d-fixed "Shaw(values=False)" --panels sigma --seeds 0 1 2 3 4

    posenc run latin-squares --preset standard --data DIR --yes

    posenc run image-fit photo.jpg

    torchrun --nproc-per-node 2 -m posenc.cli run latin-squares

    Args:
        study: Which study, as latin-squares.
        source: Your own file or folder, for a study that takes one: a picture, a mesh, a scene.
        preset: quick (minutes, never asks), standard (hours) or paper (days).
        panels: Tables and figures by name, or all; the preset's own otherwise. A wrong name lists them.
        schemes: Rows to train; the preset's own otherwise.
        seeds: Seeds to train each row with; the preset's own otherwise.
        device: cpu, cuda, cuda:1.
        data: Folder of real data; $POSENC_DATA otherwise.
        out: The store: results, checkpoints and pages.
        yes: Start a long preset without asking.
        tensorboard: Write what is measured for TensorBoard too, into this folder.
    """
    from posenc import studies
    from posenc.executors import follow
    from posenc.store import Store

    with team_of(device) as team:
        if not team.leads:
            follow(team)
            return 0
        refuse_device(device)
        _refuse_missing("analysis", "scipy", "statsmodels", "matplotlib", "jinja2")
        found = studies.find(study)
        studies.refuse_preset(found, preset)
        _refuse_source(found, source)
        asked: dict[str, Any] = {"panels": panels, "schemes": schemes, "seeds": seeds, "device": device}
        request = studies.Request(preset=preset, data=_data(data), source=source, **asked)
        return _train(found, request, Store(out), yes, team, tensorboard)


def report(
    study: Positional[str],
    source: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: str = "quick",
    panels: Names = None,
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
) -> int:
    """Write a study's page again from what its store holds; trains nothing.

    Try:

    posenc report latin-squares

    posenc report latin-squares --preset paper --panels sigma --out results/paper

    Args:
        study: Which study, as latin-squares.
        source: The file or folder that the study was about, where it was about one.
        preset: Which preset's results.
        panels: Tables and figures by name, or all; the preset's own otherwise.
        data: Folder of real data; $POSENC_DATA otherwise.
        out: The store.
    """
    from posenc import studies
    from posenc.store import Store

    _refuse_missing("analysis", "scipy", "statsmodels", "matplotlib", "jinja2")
    found, store = studies.find(study), Store(out, create=False)
    request = studies.Request(preset=preset, panels=panels, data=_data(data), source=source)
    _refuse_source(found, source)
    units = found.stored(request, store)
    status = _measure(found, request, store, units)
    print(found.page(request, store, units, {}))
    return status


def _train(found: Any, request: Any, store: Any, yes: bool, team: Team, tensorboard: Path | None) -> int:
    """Brings a request's units into the store, then what is measured of them, and says what came of it."""
    from posenc import runner
    from posenc.provenance import cores

    units = found.plan(request, store)
    todo = [unit for unit in units if not store.finished(unit.key)]
    alone = request.device != "cpu" or team.size > 1  # one unit after the other
    processes = 1 if alone else found.at_once(todo, cores())
    executor = runner.pick(request.device, processes, team=team)
    print(f"{found.question} {len(units)} runs on {executor}, results in {store.root}.")
    if not alone and processes < (wanted := min(cores(), len(todo))):
        print(f"Not {wanted} at a time, one on each core: there is no memory for that many.")
    if request.preset in found.asks and todo and not _agreed(found.estimate(todo, store, processes), yes):
        print("Nothing was started.")
        return 1
    for line in found.announce(request, store, units):
        print(line)
    report = runner.run(units, store, executor, cost=found.cost, board=tensorboard)
    team.leave()  # nothing was left to train
    status = _measure(found, request, store, units)
    for line in found.verdict(request, store, units):
        print(line)
    print(found.page(request, store, units, {unit.key: sentence for unit, sentence in report.failed}))
    return report.exit_code or status


def _refuse_source(found: Any, source: Path | None) -> None:
    if source is None:
        return
    if not found.takes:
        raise ValueError(f"{found.name} takes no file of its own; got {source}. Leave it out.")
    if not source.exists():
        raise ValueError(f"{source} is not there. {found.name} takes {found.takes}.")


def _agreed(estimate: Any, yes: bool) -> bool:
    """Whether a long preset may start: --yes, or somebody at the terminal says so."""
    from posenc import runner

    return runner.confirm(estimate, yes, sys.stdin.isatty() and sys.stdout.isatty())


def _measure(found: Any, request: Any, store: Any, units: Any) -> int:
    """Brings the measurements of trained units into the store: on the CPU, unless their settings name a device."""
    from posenc import runner
    from posenc.provenance import cores

    wanted = found.measurements(request, store, units)
    if all(store.finished(unit.key) for unit in wanted):
        return 0
    print(f"Measuring {len(wanted)} trained models.")
    device, processes = wanted[0].settings.get("device", "cpu"), found.at_once(units, cores())
    return runner.run(wanted, store, runner.pick(device, processes)).exit_code


def results(
    study: str | None = None,
    preset: str | None = None,
    format: Literal["table", "csv", "parquet", "latex"] = "table",  # the flag is --format
    out: Path = Path("runs"),
    to: Path | None = None,
) -> int:
    """Print or export the numbers of a store: one row per unit and metric.

    Columns: study, preset, setting, scheme, seed, metric, value, unit.

    Try:

    posenc results

    posenc results --format csv --out runs > results.csv

    posenc results --format parquet --to results.parquet

    Args:
        study: Only this study.
        preset: Only this preset.
        format: table for people; csv, parquet or latex for programs and papers.
        out: The store.
        to: Write to this file instead of the terminal.
    """
    from posenc.store import Store

    if to is not None and format == "table":
        raise ValueError(f"a table is for the terminal. Say what {to} is to be: --format csv, parquet or latex.")
    store = Store(out, create=False)
    if format == "table":
        _table(store.results(study, preset))
        return 0
    if to is not None:
        store.export(to, format, study, preset)
        print(to)
        return 0
    if format == "parquet":
        raise ValueError("parquet is a file, not text. Say where: posenc results --format parquet --to results.parquet")
    from posenc.export import encode

    sys.stdout.write(encode(store.results(study, preset), format).decode())
    return 0


def _data(given: Path | None) -> Path | None:
    """The folder of real data: --data, else $POSENC_DATA."""
    folder = given or (Path(os.environ["POSENC_DATA"]) if os.environ.get("POSENC_DATA") else None)
    if given is not None and not given.is_dir():
        raise ValueError(f"--data {given} is not a folder. Give the one that holds lst/, or leave --data out.")
    return folder


def _refuse_missing(extra: str, *modules: str) -> None:
    """Before hours of training, and not after them: what the page needs is installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"a study's page needs {missing[0]}, which is not installed: pip install 'posenc[{extra}]'")


def _table(rows: list[dict[str, Any]]) -> None:
    """Mean and SD over seeds of each scheme's accuracies."""
    from statistics import mean, stdev

    from rich.table import Table

    if not rows:
        print("The store holds no finished unit of that study and preset.")
        return
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        labels = (row["study"], row["preset"], row["setting"], row["scheme"])
        groups.setdefault(labels, {}).setdefault(row["metric"], []).append(row["value"])
    metrics = [m for m in ("accuracy_ood", "accuracy_iid", "accuracy_train") if any(m in g for g in groups.values())]
    metrics = metrics or sorted({m for g in groups.values() for m in g})[:4]
    table = Table("study", "preset", "setting", "scheme", "seeds", *metrics, box=None)
    for labels, found in groups.items():
        cells = []
        for metric in metrics:
            numbers = found.get(metric, [])
            spread = f" ± {stdev(numbers):.3f}" if len(numbers) > 1 else ""
            cells.append(f"{mean(numbers):.3f}{spread}" if numbers else "")
        table.add_row(*labels, str(max(map(len, found.values()))), *cells)
    console().print(table)
