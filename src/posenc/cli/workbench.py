"""Commands about studies: ``posenc run``, ``report`` and ``results``."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from posenc.cli.terminal import console, refuse_device
from posenc.cli.torchrun import team_of

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
    """Train the models of a study and write its page.

    Finished runs are kept. Run the same command again to continue after a crash, or to add schemes or seeds.

    For example:

    posenc run latin-squares

    posenc run latin-squares --schemes 2d-fixed "Shaw(values=False)" --panels sigma --seeds 0 1 2 3 4

    posenc run latin-squares --preset standard --data DIR --yes

    posenc run image-fit photo.jpg

    torchrun --nproc-per-node 2 -m posenc.cli run latin-squares

    Args:
        study: Name of the study, such as latin-squares. A wrong name prints all studies.
        source: Your own file or folder, for a study that takes one: an image, a mesh, a scene.
        preset: Scale: quick (minutes, starts at once), standard (hours) or paper (days).
        panels: Figures and tables of the page by name, or all. Default: those of the preset. A wrong name prints all.
        schemes: Variants to train. Default: those of the preset. A wrong name prints the nearest ones.
        seeds: Seeds of each variant. Default: those of the preset.
        device: cpu, cuda or cuda:N.
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store: folder of results, checkpoints and pages.
        yes: Start a long preset without confirmation.
        tensorboard: Also write all measurements as TensorBoard event files to this folder.
    """
    from posenc.workbench import commands, studies
    from posenc.workbench.executors.processes import follow
    from posenc.workbench.store import Store

    with team_of(device) as team:
        if not team.leads:
            follow(team)
            return 0
        refuse_device(device)
        _refuse_missing("analysis", "scipy", "statsmodels", "matplotlib", "jinja2")
        definition = studies.find(study)
        studies.refuse_preset(definition, preset)
        _refuse_source(definition, source)
        selection: dict[str, Any] = {"panels": panels, "schemes": schemes, "seeds": seeds, "device": device}
        request = studies.Request(preset=preset, data=_data(data), source=source, **selection)
        confirm = partial(_confirmed, yes=yes)
        done = commands.execute_request(
            definition, request, Store(out), confirm=confirm, team=team, tensorboard=tensorboard
        )
        return done.exit_code if done else 1


def report(
    study: Positional[str],
    source: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: str = "quick",
    panels: Names = None,
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
) -> int:
    """Write the page of a study from stored results, without training.

    For example:

    posenc report latin-squares

    posenc report latin-squares --preset paper --panels sigma --out results/paper

    Args:
        study: Name of the study, such as latin-squares.
        source: The file or folder that the study was run on, if it takes one.
        preset: Preset of the results.
        panels: Figures and tables of the page by name, or all. Default: those of the preset.
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store.
    """
    from posenc.workbench import commands, studies
    from posenc.workbench.store import Store

    _refuse_missing("analysis", "scipy", "statsmodels", "matplotlib", "jinja2")
    definition, store = studies.find(study), Store(out, create=False)
    request = studies.Request(preset=preset, panels=panels, data=_data(data), source=source)
    _refuse_source(definition, source)
    return commands.report_request(definition, request, store).exit_code


def _refuse_source(study: Any, source: Path | None) -> None:
    if source is None:
        return
    if not study.takes:
        raise ValueError(f"{study.name} takes no file or folder; got {source}. Leave it out.")
    if not source.exists():
        raise ValueError(f"{source} does not exist. {study.name} takes {study.takes}.")


def _confirmed(estimate: Any, yes: bool) -> bool:
    """Confirm a long preset: by --yes or by an answer at the terminal."""
    from posenc.workbench import runner

    return runner.confirm(estimate, yes, sys.stdin.isatty() and sys.stdout.isatty())


def results(
    study: str | None = None,
    preset: str | None = None,
    format: Literal["table", "csv", "parquet", "latex"] = "table",  # The flag is --format.
    out: Path = Path("runs"),
    to: Path | None = None,
) -> int:
    """Print or export the results of a store, one row per run and metric.

    Columns: study, preset, setting (the condition), scheme (the variant), seed, metric, value, unit (identity of the
    run).

    For example:

    posenc results

    posenc results --format csv --out runs > results.csv

    posenc results --format parquet --to results.parquet

    Args:
        study: Only results of this study.
        preset: Only results of this preset.
        format: table for the terminal; csv, parquet or latex for programs and papers.
        out: The store.
        to: File to write instead of printing.
    """
    from posenc.workbench.store import Store

    if to is not None and format == "table":
        raise ValueError(f"a table is for the terminal. Name the format of {to}: --format csv, parquet or latex.")
    store = Store(out, create=False)
    if format == "table":
        _table(store.results(study, preset))
        return 0
    if to is not None:
        store.export(to, format, study, preset)
        print(to)
        return 0
    if format == "parquet":
        raise ValueError("parquet is a binary file. Name it: posenc results --format parquet --to results.parquet")
    from posenc.workbench.export import encode

    sys.stdout.write(encode(store.results(study, preset), format).decode())
    return 0


def _data(folder_option: Path | None) -> Path | None:
    """Folder of real data: --data, otherwise $POSENC_DATA."""
    folder = folder_option or (Path(os.environ["POSENC_DATA"]) if os.environ.get("POSENC_DATA") else None)
    if folder_option is not None and not folder_option.is_dir():
        raise ValueError(f"--data {folder_option} is not a folder. Give the one that holds lst/, or leave --data out.")
    return folder


def _refuse_missing(extra: str, *modules: str) -> None:
    """Check before training that the packages of the page are installed."""
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ValueError(f"a study's page needs {missing[0]}, which is not installed: pip install 'posenc[{extra}]'")


def _table(rows: list[dict[str, Any]]) -> None:
    """Print mean and SD over seeds of the main metrics of each scheme; a line of its own for each further copy."""
    from math import isfinite
    from statistics import mean, stdev

    from rich.table import Table

    if not rows:
        print("The store has no finished run of that study and preset.")
        return
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        copy = row["unit"].partition(".")[2]
        labels = (row["study"], row["preset"], row["setting"], row["scheme"] + (f" (copy {copy})" if copy else ""))
        groups.setdefault(labels, {}).setdefault(row["metric"], []).append(row["value"])
    metrics = [m for m in ("accuracy_ood", "accuracy_iid", "accuracy_train") if any(m in g for g in groups.values())]
    metrics = metrics or sorted({m for g in groups.values() for m in g})[:4]
    table = Table(
        "study", "preset", "condition", "scheme", "seeds", *(f"{metric} ± SD" for metric in metrics), box=None
    )
    for labels, by_metric in groups.items():
        cells = []
        for metric in metrics:
            numbers = by_metric.get(metric, [])
            spread = f" ± {stdev(numbers):.3f}" if len(numbers) > 1 and all(map(isfinite, numbers)) else ""
            cells.append(f"{mean(numbers):.3f}{spread}" if numbers else "")
        table.add_row(*labels, str(max(map(len, by_metric.values()))), *cells)
    console().print(table)
