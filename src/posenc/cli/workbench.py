"""Commands about studies: ``posenc run`` and ``posenc report``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from posenc.cli.dry_run import print_plan
from posenc.cli.figures import runs_of_figures
from posenc.cli.grammar import Positional, arg
from posenc.cli.setting_checks import changes_by_name
from posenc.cli.terminal import refuse_device
from posenc.cli.torchrun import team_of
from posenc.workbench import request_checks
from posenc.workbench.executors.engines import EngineRequest, engine_request

MOST_LISTED_SEEDS = 10
"""Largest single seed that may have been meant as a number of seeds."""

StudyName = Annotated[Positional[str], arg(names="study")]
PresetName = Annotated[str, arg(names="preset")]
Panels = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..", names="panel")]
Variants = Annotated[tuple[str, ...] | None, arg(metavar="NAME ..", names="variant")]
Numbers = Annotated[tuple[int, ...] | None, arg(metavar="N ..")]
Rates = Annotated[tuple[float, ...] | None, arg(metavar="RATE ..")]
Columns = Annotated[tuple[str, ...] | None, arg(metavar="COLUMN ..", names="column")]
Changes = Annotated[tuple[str, ...], arg(metavar="NAME=VALUE", flag="--set", repeated=True, names="setting")]


def run(
    study: Annotated[Positional[str | None], arg(names="study")] = None,
    source: Annotated[Positional[Path | None], arg(metavar="FILE", names="source")] = None,
    preset: PresetName = "quick",
    panels: Panels = None,
    figures: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..", flag="--figure")] = None,
    conditions: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    schemes: Variants = None,
    seeds: Numbers = None,
    changes: Changes = (),
    lr_sweep: Rates = None,
    jobs: int | None = None,
    dry_run: bool = False,
    device: str = "cpu",
    on: Annotated[str, arg(metavar="ENGINE[=PLACE]")] = "local",
    runs_per_job: int | None = None,
    slurm: Annotated[tuple[str, ...], arg(metavar="VALUE", flag="--slurm-OPTION", repeated=True)] = (),
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    out: Path = Path("runs"),
    yes: bool = False,
    tensorboard: Annotated[Path | None, arg(metavar="DIR")] = None,
    retrain_changed: bool = False,
    format: str | None = None,
    labels: Annotated[str | None, arg(metavar="FILE")] = None,
    size: int | None = None,
    fit: Literal["crop", "pad", "resize"] | None = None,
    background: str | None = None,
    field: str | None = None,
    dtype: Literal["bytes", "uint16", "uint32"] | None = None,
    features: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    scale: Literal["unit", "keep"] | None = None,
    val: Annotated[str | None, arg(metavar="PATH")] = None,
    tokenizer: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    drop: bool = False,
    fill: Literal["linear"] | None = None,
    blocks: int | None = None,
    time: Annotated[str | None, arg(metavar="COLUMN")] = None,
    id: Annotated[str | None, arg(metavar="COLUMN")] = None,
    target: Annotated[str | None, arg(metavar="COLUMN,..")] = None,
    unit: Literal["second", "minute", "hour", "day", "week", "month", "year"] | None = None,
    coordinates: Columns = None,
    geometry: Literal["sphere", "plane", "space"] | None = None,
    groups: Annotated[str | None, arg(metavar="COLUMN")] = None,
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

    posenc run masked recordings.npz --fill linear

    posenc run series weather.csv --target temp_max

    posenc run places houses.csv --coordinates longitude latitude --target price

    posenc run gridpe photographs/ --lr-sweep 0.0005 0.001 0.002
    posenc run latin-squares --schemes 2d-fixed GridPE@grid "my_scheme.py:MyScheme(heads=4)"

    torchrun --nproc-per-node 2 -m posenc.cli run latin-squares

    posenc run latin-squares --preset paper --on slurm=cpu --slurm-time=4:00:00 --yes

    Args:
        study: Name of the study, such as latin-squares.
        source: Your own file or folder, for a study that takes one: an image, a mesh, a scene.
        preset: Scale: quick (minutes, starts at once), standard (hours) or paper (days).
        panels: Figures and tables of the page by name, or all. Default: those of the preset.
        figures: Tables and figures of the paper of the study, such as "Table 1" or A7A; posenc list figures names them.
        conditions: Conditions to train, of those that posenc list variants STUDY names. Default: all of the panels.
        schemes: Variants to train: labels of the study, encodings, or your own: my_scheme.py, a class of the file,
            mypkg.bias:MyBias. @VIEW after one puts it on a view of the positions that posenc list variants STUDY
            names. Default: those of the panels.
        seeds: Seeds of each variant by their numbers: 0 1 2 are three seeds, 2 alone is one. Default: those of the
            preset.
        changes: A setting of the study and its new value, such as epochs=4; repeat the flag for more settings.
        lr_sweep: Learning rates, for your own data: the best on validation data, with one seed and half of the steps,
            is chosen for each variant. Default: the rates of the preset.
        jobs: Runs at the same time; with SLURM, jobs. Default: one per core, fewer if memory does not suffice.
        dry_run: Print the runs, what is done already and an estimate of the time; train nothing.
        device: cpu, cuda or cuda:N.
        on: Engine that executes the runs: local (default), ray, ray=HOST:PORT, slurm or slurm=PARTITION. Ray without an
            address takes that of $RAY_ADDRESS, or starts on this machine. docs/scaling.md explains each.
        runs_per_job: Runs of one SLURM job, one after the other. Default: as many as make at most 100 jobs.
        slurm: An option of sbatch with its value, such as --slurm-account=NAME or --slurm-time=4:00:00, the time limit
            of a job (default: an hour). A job that reaches it continues from its checkpoint in a new one.
        data: Folder of real data. Default: $POSENC_DATA.
        out: The store: folder of results, checkpoints and pages.
        yes: Start a long preset without confirmation.
        tensorboard: Also write all measurements as TensorBoard event files to this folder.
        retrain_changed: Train finished runs of this command again if source files that decide their results have
            changed. The earlier results are kept in the folder "replaced" of the store.
        format: Form to read your data as, where two are possible: a name that posenc data look PATH prints.
        labels: CSV with the columns file and label, for a folder of images without class folders; or with the columns
            node and label, for the edges of one graph.
        size: Side of your images in pixels, for gridpe and sc-pe. Default: that of the preset, 32 at quick.
        fit: How your images become square: crop (default) takes the middle, pad adds a border to the shorter side,
            resize changes the aspect ratio.
        background: Color behind transparent pixels and of the border: white (default), black, gray or #rrggbb.
        field: Field with the text in your JSON Lines or Parquet, for the study language.
        dtype: What your .bin file holds, for the study language: bytes, or token ids of this type.
        features: Features beside the coordinates. For the study points: none (default), normals, colors or all. For the
            study places: columns of your table, none or all. Default: all.
        scale: unit moves and scales each of your clouds to the unit ball; keep applies one shift and one factor to all
            clouds, so that their sizes and places differ. Default: unit.
        val: A second text, for the study language: results are those on it.
        tokenizer: Tokens of your text, for the study language: characters, bytes, words, words:2000, or a
            tokenizer.json. Default: characters.
        drop: Drop channels of recordings that are constant or have missing values.
        fill: linear fills missing values of recordings linearly in time. Default: their times are left out.
        blocks: Number of blocks that one long recording is cut into, to train on some and test on others. Default: up
            to 10, fewer for a short one.
        time: Column with the times of your table. Default: for the study series the one that its name shows, such as
            date; for the study places none.
        id: Column with the names of the series, in a table of several. Default: the one that its name shows, if any.
        target: Columns with the values of your series, divided by commas. Default: those that their names show, or all
            columns of numbers. For the study places, the column to predict.
        unit: What times count that are numbers. Default: the times are dates.
        coordinates: Columns with the coordinates of your places, such as longitude latitude. Default: those that their
            names show.
        geometry: Kind of your coordinates: sphere is longitude and latitude in degrees, plane two and space three
            coordinates of one unit. Default: the one that their names show.
        groups: Column of your places whose equal values stay on one side of each split. Default: no groups.
    """
    if study is None:
        return _list_studies()
    options = {"engine": _place(jobs, device, on, runs_per_job, slurm), **_execution(locals())}
    panels, conditions, schemes = _chosen_runs(study, figures, panels, conditions, schemes)
    _refuse_lists(panels, schemes, seeds, lr_sweep, {"--out": out, "--tensorboard": tensorboard})
    return _train(study, _asked(study, locals()), out, options, dry_run=dry_run, yes=yes)


def _asked(study: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of the request of a command, from its arguments by name."""
    names = ("preset", "panels", "conditions", "schemes", "seeds", "device", "changes", "source", "lr_sweep")
    asked = {name: given[name] for name in names} | {"data": _data(given["data"])}
    return asked | {"reading": request_checks.reading_options(study, given["source"], given)}


def _execution(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the execution that need no check, from the arguments of a command by name."""
    return {name: given[name] for name in ("jobs", "tensorboard", "retrain_changed")}


def _chosen_runs(
    study: str,
    figures: tuple[str, ...] | None,
    panels: tuple[str, ...] | None,
    conditions: tuple[str, ...] | None,
    schemes: tuple[str, ...] | None,
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None, tuple[str, ...] | None]:
    """Panels, conditions and schemes of a request; those that the user names come before those of figures."""
    if figures is None:
        return panels, conditions, schemes
    if panels is not None:
        raise ValueError("--panels and --figure both choose what is drawn. Leave one out.")
    needed = runs_of_figures(study, figures)
    print(f"{'; '.join(needed.figures)}: {'panels' if needed.panels[1:] else 'panel'} {', '.join(needed.panels)}.")
    return needed.panels, conditions or needed.conditions, schemes or needed.variants


def _train(study: str, asked: dict[str, Any], out: Path, options: dict[str, Any], *, dry_run: bool, yes: bool) -> int:
    """Train the runs of a request, or print them.

    Args:
        study: Name of the study.
        asked: Attributes of the request, as the command line gives them.
        out: The store.
        options: Options of the execution.
        dry_run: True to print the runs.
        yes: True to start a long preset.

    Returns:
        The exit code.
    """
    from posenc.workbench import request_options, studies
    from posenc.workbench.executors.processes import follow
    from posenc.workbench.request_execution import execute_request

    with team_of(asked["device"]) as team:
        if team.size > 1 and options["engine"]:
            raise ValueError(f"--on {options['engine'].engine} and torchrun exclude each other. Leave one out.")
        if not team.leads:
            follow(team)
            return 0
        if options["engine"] is None:  # A worker has the device, not this machine.
            refuse_device(asked["device"])
        request_checks.refuse_missing_packages(*request_options.PAGE_PACKAGES)
        definition = studies.find(study)
        asked |= {"schemes": request_options.scheme_names(asked["schemes"])}
        asked |= {"changes": changes_by_name(asked["changes"])}
        request = studies.Request(**asked)
        if dry_run:
            print_plan(definition, request, out, options["jobs"], options["engine"])
            return 0
        done = execute_request(definition, request, out, confirm=partial(_confirmed, yes=yes), team=team, **options)
        return done.exit_code if done else 1


def report(
    study: StudyName,
    file: Annotated[Positional[Path | None], arg(metavar="FILE")] = None,
    preset: PresetName = "quick",
    panels: Panels = None,
    schemes: Variants = None,
    changes: Changes = (),
    lr_sweep: Rates = None,
    figures: Annotated[Path | None, arg(metavar="DIR")] = None,
    format: Literal["pdf", "svg", "png"] = "pdf",
    force: bool = False,
    data: Annotated[Path | None, arg(metavar="DIR")] = None,
    source: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    pack: Annotated[Path | None, arg(metavar="FILE")] = None,
    out: Path = Path("runs"),
) -> int:
    """Write the page of a study from stored results, without training.

    For example:

    posenc report latin-squares

    posenc report latin-squares --preset paper --panels sigma --out results/paper

    posenc report latin-squares --figures figures --format pdf

    posenc report language --source docs-1f00c4
    posenc report nmar --preset standard --pack results/nmar-standard.pack

    Args:
        study: Name of the study, such as latin-squares.
        file: The file or folder that the study was run on, as --source.
        preset: Preset of the results.
        panels: Figures and tables of the page by name, or all. Default: those of the preset.
        schemes: Variants to show. Default: all stored ones.
        changes: A setting and its value, as the results were made with.
        lr_sweep: Learning rates, as the results were made with.
        figures: Also write each figure to a file of its own in this folder, in the width of a paper's column.
        format: File format of the figures: pdf, svg or png. Fonts are embedded.
        force: Replace figures that exist.
        data: Folder of real data. Default: $POSENC_DATA.
        source: Data of the page, where the store has several: name, NAME-DIGEST, or path of the file or folder.
        pack: A pack, or a folder of packs, that is merged into the store first.
        out: The store.
    """
    if file is not None and source is not None:
        raise ValueError(f"the data of the page are named twice, {file} and --source {source}. Name them once.")
    _refuse_lists(panels, schemes, None, lr_sweep)
    folder = _data(data)
    _refuse_folders({"--figures": figures, "--out": None if pack is None else out})
    if pack is None:
        request_checks.refuse_no_store(out)
    else:
        request_checks.refuse_pack(pack)
    from posenc.workbench import request_execution, request_options, studies

    request_checks.refuse_missing_packages(*request_options.PAGE_PACKAGES)
    definition, names = studies.find(study), request_options.scheme_names(schemes)
    selection: dict[str, Any] = {"panels": panels, "schemes": names, "changes": changes_by_name(changes)}
    selection |= {"lr_sweep": lr_sweep, "about": source or str(file or "")}
    request = studies.Request(preset=preset, data=folder, **selection)
    result = request_execution.report_request(definition, request, request_execution.store_of_report(out, pack))
    if figures is not None:
        print(f"{len(result.save_figures(figures, format, force=force))} figures in {figures}.")
    return result.exit_code


def _list_studies() -> int:
    from posenc.cli.lists import print_studies

    print_studies()
    return 0


def _place(
    jobs: int | None, device: str, on: str, runs_per_job: int | None, slurm: tuple[str, ...]
) -> EngineRequest | None:
    """Engine of the runs, None for this machine; ValueError for less than one run, or an unknown device or engine."""
    request_checks.refuse_device_name(device)
    if jobs is not None and jobs < 1:
        raise ValueError(f"--jobs is a number of at least 1; got {jobs}. Leave it out for one run per core.")
    return engine_request(on, runs_per_job=runs_per_job, options=slurm, device=device)


def _refuse_lists(
    panels: tuple[str, ...] | None,
    schemes: tuple[str, ...] | None,
    seeds: tuple[int, ...] | None,
    lr_sweep: tuple[float, ...] | None,
    folders: Mapping[str, Path | None] = MappingProxyType({}),
) -> None:
    """Raise ValueError for a value that is given twice or out of range, or for a file or folder that cannot be."""
    request_checks.refuse_seeds(seeds)
    _explain_one_seed(seeds)
    request_checks.refuse_rates(lr_sweep)
    request_checks.refuse_repeated("scheme", schemes)
    request_checks.refuse_repeated("panel", panels)
    for name in schemes or ():
        if name.endswith(".py"):
            request_checks.refuse_scheme_file(Path(name))
    _refuse_folders(folders)


def _explain_one_seed(seeds: tuple[int, ...] | None) -> None:
    """Tell a reader who may have meant a number of seeds that --seeds lists their numbers."""
    if seeds is not None and len(seeds) == 1 and 1 < seeds[0] <= MOST_LISTED_SEEDS:
        listed = " ".join(map(str, range(seeds[0])))
        print(
            f"--seeds {seeds[0]} is one seed, number {seeds[0]}. For {seeds[0]} seeds write --seeds {listed}.",
            file=sys.stderr,
        )


def _refuse_folders(folders: Mapping[str, Path | None]) -> None:
    """Raise ValueError for a folder that cannot be made; by option."""
    for option, folder in folders.items():
        if folder is not None:
            request_checks.refuse_folder(folder, option)


def _confirmed(estimate: Any, yes: bool) -> bool:
    """Confirm a long preset: by --yes or by an answer at the terminal."""
    from posenc.workbench import runner

    return runner.confirm(estimate, yes, sys.stdin.isatty() and sys.stdout.isatty())


def _data(folder_option: Path | None) -> Path | None:
    """Folder of real data: --data, otherwise $POSENC_DATA."""
    folder = folder_option or (Path(os.environ["POSENC_DATA"]) if os.environ.get("POSENC_DATA") else None)
    if folder_option is not None and not folder_option.is_dir():
        raise ValueError(f"--data {folder_option} is not a folder. Give the one that holds lst/, or leave --data out.")
    return folder
