"""Commands about studies: ``posenc run``, ``report`` and ``results``."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from posenc.cli.grammar import Positional, arg
from posenc.cli.name_checks import changes_by_name
from posenc.cli.terminal import console, refuse_device
from posenc.cli.torchrun import team_of

StudyName = Annotated[Positional[str], arg(names="study")]
PresetName = Annotated[str, arg(names="preset")]
Panels = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..", names="panel")]
Variants = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..", names="variant")]
Numbers = Annotated[tuple[int, ...] | None, arg(metavar="N ..")]
Changes = Annotated[tuple[str, ...], arg(metavar="NAME=VALUE", flag="--set", repeated=True, names="setting")]


def run(
    study: Annotated[Positional[str | None], arg(names="study")] = None,
    source: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: PresetName = "quick",
    panels: Panels = None,
    schemes: Variants = None,
    seeds: Numbers = None,
    changes: Changes = (),
    jobs: int | None = None,
    dry_run: bool = False,
    device: str = "cpu",
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
    yes: bool = False,
    tensorboard: Annotated[Path | None, arg(metavar="DIR")] = None,
) -> int:
    """Train the models of a study and write its page.

    Finished runs are kept. Run the same command again to continue after a crash, or to add schemes or seeds. Without a
    study all studies are listed.

    For example:

    posenc run latin-squares

    posenc run latin-squares --schemes 2d-fixed "Shaw(values=False)" --seeds 0 1 2

    posenc run latin-squares --preset standard --data DIR --yes

    posenc run latin-squares --set epochs=4 --set optimizer=sgd

    posenc run image-fit photo.jpg

    posenc run latin-squares --schemes 2d-fixed my_scheme.py

    torchrun --nproc-per-node 2 -m posenc.cli run latin-squares

    Args:
        study: Name of the study, such as latin-squares.
        source: Your own file or folder, for a study that takes one: an image, a mesh, a scene.
        preset: Scale: quick (minutes, starts at once), standard (hours) or paper (days).
        panels: Figures and tables of the page by name, or all. Default: those of the preset.
        schemes: Variants to train: labels of the study, encodings, or your own Python file. Default: those of the
            panels.
        seeds: Seeds of each variant. Default: those of the preset.
        changes: A setting of the study and its new value, such as epochs=4; repeat the flag for more settings.
        jobs: Runs at the same time. Default: one per core, fewer if memory does not suffice.
        dry_run: Print the runs, what is done already and an estimate of the time; train nothing.
        device: cpu, cuda or cuda:N.
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store: folder of results, checkpoints and pages.
        yes: Start a long preset without confirmation.
        tensorboard: Also write all measurements as TensorBoard event files to this folder.
    """
    if study is None:
        from posenc.cli.lists import print_studies

        print_studies()
        return 0
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs is a number of at least 1; got {jobs}. Leave it out for one run per core.")
    folder = _data(data)
    from posenc.workbench import commands, studies
    from posenc.workbench.executors.processes import follow
    from posenc.workbench.store import Store

    with team_of(device) as team:
        if not team.leads:
            follow(team)
            return 0
        refuse_device(device)
        commands.refuse_missing_packages(*commands.PAGE_PACKAGES)
        definition = studies.find(study)
        studies.refuse_preset(definition, preset)
        commands.refuse_source(definition, source)
        names = commands.scheme_names(schemes)
        selection: dict[str, Any] = {"panels": panels, "schemes": names, "seeds": seeds, "device": device}
        selection |= {"changes": changes_by_name(changes), "data": folder, "source": source}
        request = studies.Request(preset=preset, **selection)
        if dry_run:
            from posenc.cli.dry_run import print_plan

            print_plan(definition, request, out, jobs)
            return 0
        confirm = partial(_confirmed, yes=yes)
        done = commands.execute_request(
            definition, request, Store(out), confirm=confirm, jobs=jobs, team=team, tensorboard=tensorboard
        )
        return done.exit_code if done else 1


def report(
    study: StudyName,
    source: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: PresetName = "quick",
    panels: Panels = None,
    schemes: Variants = None,
    changes: Changes = (),
    figures: Annotated[Path | None, arg(metavar="DIR")] = None,
    format: Literal["pdf", "svg", "png"] = "pdf",
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
) -> int:
    """Write the page of a study from stored results, without training.

    For example:

    posenc report latin-squares

    posenc report latin-squares --preset paper --panels sigma --out results/paper

    posenc report latin-squares --figures figures --format pdf

    Args:
        study: Name of the study, such as latin-squares.
        source: The file or folder that the study was run on, if it takes one.
        preset: Preset of the results.
        panels: Figures and tables of the page by name, or all. Default: those of the preset.
        schemes: Variants to show. Default: all stored ones.
        changes: A setting and its value, as the results were made with.
        figures: Also write each figure to a file of its own in this folder, in the width of a paper's column.
        format: File format of the figures: pdf, svg or png. Fonts are embedded.
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store.
    """
    from posenc.workbench import commands, studies
    from posenc.workbench.store import Store

    commands.refuse_missing_packages(*commands.PAGE_PACKAGES)
    definition, store = studies.find(study), Store(out, create=False)
    names, changed = commands.scheme_names(schemes), changes_by_name(changes)
    selection: dict[str, Any] = {"panels": panels, "schemes": names, "changes": changed}
    request = studies.Request(preset=preset, data=_data(data), source=source, **selection)
    commands.refuse_source(definition, source)
    result = commands.report_request(definition, request, store)
    if figures is not None:
        print(f"{len(result.save_figures(figures, format))} figures in {figures}.")
    return result.exit_code


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


def _table(rows: list[dict[str, Any]]) -> None:
    """Print mean and SD over seeds of the main metrics of each scheme; a line of its own for each further copy."""
    from math import isfinite
    from statistics import mean, stdev

    from rich.table import Column, Table

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
    titles = ("study", "preset", "condition", "scheme", "seeds", *(f"{metric} ± SD" for metric in metrics))
    table = Table(*(Column(title, overflow="fold") for title in titles), box=None)
    for labels, by_metric in groups.items():
        cells = []
        for metric in metrics:
            numbers = by_metric.get(metric, [])
            spread = f" ± {stdev(numbers):.3f}" if len(numbers) > 1 and all(map(isfinite, numbers)) else ""
            cells.append(f"{mean(numbers):.3f}{spread}" if numbers else "")
        table.add_row(*labels, str(max(map(len, by_metric.values()))), *cells)
    console().print(table)
