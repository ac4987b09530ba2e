"""``posenc advise``: the encoding for a user's data, by a race within a time; or schemes by their claims."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from posenc.cli import index, scheme_questions
from posenc.cli.grammar import Positional, arg
from posenc.cli.setting_checks import changes_by_name
from posenc.cli.terminal import refuse_device
from posenc.cli.workbench import Changes
from posenc.workbench.executors.engines import EngineRequest, engine_request
from posenc.workbench.request_checks import READING_OPTIONS, refuse_device_name, refuse_folder


def advise(
    path: Positional[Path | None] = None,
    target: Annotated[str | None, arg(metavar="COLUMN")] = None,
    budget: Annotated[str, arg(metavar="TIME")] = "10m",
    question: Annotated[str | None, arg(metavar="between|new")] = None,
    study: str | None = None,
    changes: Changes = (),
    jobs: int | None = None,
    device: str = "cpu",
    on: Annotated[str, arg(metavar="ENGINE[=PLACE]")] = "local",
    slurm: Annotated[tuple[str, ...], arg(metavar="VALUE", flag="--slurm-OPTION", repeated=True)] = (),
    out: Path = Path("runs"),
    explain: bool = False,
    axes: int | None = None,
    unbounded: bool = False,
    relative: bool = False,
    cache: bool = False,
    mask: bool = False,
    format: str | None = None,
    labels: Annotated[str | None, arg(metavar="FILE")] = None,
    field: str | None = None,
    dtype: Literal["bytes", "uint16", "uint32"] | None = None,
    features: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    val: Annotated[str | None, arg(metavar="PATH")] = None,
    tokenizer: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    time: Annotated[str | None, arg(metavar="COLUMN")] = None,
    id: Annotated[str | None, arg(metavar="COLUMN")] = None,
    coordinates: Annotated[tuple[str, ...] | None, arg(metavar="COLUMN ..")] = None,
    geometry: Literal["sphere", "plane", "space"] | None = None,
    groups: Annotated[str | None, arg(metavar="COLUMN")] = None,
) -> int:
    """Compare encodings on your data within a time, and recommend one.

    All candidates are trained a little; those that are shown to be worse are dropped, the others are trained on. The
    answer is compared on data that no choice has seen. The same command continues after an interruption, and a larger
    budget adds to what is there. With --explain nothing is trained: schemes are listed by their measured claims.

    For example:

    posenc advise houses.csv --target price --budget 5m

    posenc advise houses.csv --target price --question new

    posenc advise photo.jpg --budget 10m

    posenc advise book.txt

    posenc advise --explain --axes 2 --relative --unbounded

    Args:
        path: Your file or folder: a table with coordinates, an image, a text, class folders, clouds, recordings ..
        target: Column to predict, for a table.
        budget: Time of the clock, such as 10m, 90s or 1h.
        question: For a table of places: the best between known places (default), or at new ones.
        study: Name of the study that reads your data, where several do. Default: found by names and headers.
        changes: A setting of the quick preset of the study and its new value; repeat the flag for more settings.
        jobs: Trainings at the same time. Default: one per core.
        device: cpu, cuda or cuda:N.
        on: Engine that trains: local (default), ray, ray=HOST:PORT, slurm or slurm=PARTITION. See posenc run.
        slurm: An option of sbatch with its value, such as --slurm-account=NAME; with --on slurm.
        out: The store: folder of results, checkpoints and pages.
        explain: List schemes by their claims, and train nothing. In a terminal it asks questions.
        axes: With --explain: number of axes of the positions.
        unbounded: With --explain: positions may be larger than any in training.
        relative: With --explain: a shift of all positions must not change the logits of a trained model.
        cache: With --explain: decoding keeps transformed keys and values in a cache.
        mask: With --explain: the model has an attention mask of its own.
        format: Form to read your data as, where two are possible.
        labels: CSV with the columns file and label, for a folder of images; or node and label, for a table of edges.
        field: Field with the text in JSON Lines or Parquet.
        dtype: What a .bin file holds: bytes, or token ids of this type.
        features: Columns of your table beside the coordinates, none or all; of clouds: none, normals, colors or all.
        val: A second text, on which results are reported.
        tokenizer: Tokens of a text: characters, bytes, words, words:2000, or a tokenizer.json. Default: characters.
        time: Column with the times of your table.
        id: Column with the names of the series.
        coordinates: Columns with the coordinates of your places.
        geometry: Kind of your coordinates: longitude and latitude, two or three coordinates of one unit.
        groups: Column of your places whose equal values stay on one side of each split.
    """
    wanted = scheme_questions.Wanted(axes, unbounded, relative, cache, mask)
    if explain:
        given = {"--target": target, "--question": question, "--study": study, "--set": changes or None, "--jobs": jobs}
        given |= {"--device": device.removeprefix("cpu"), "--on": on.removeprefix("local"), "--slurm-OPTION": slurm}
        return _explain(path, wanted, [flag for flag, value in given.items() if value])
    path = _required(path, wanted)
    refuse_folder(out, "--out")
    stated = {name: value for name, value in locals().items() if name in READING_OPTIONS and value is not None}
    stated.pop("target", None)
    engine = _engine(on, slurm, device)
    from posenc.workbench.advice.advise import advise as give_advice

    options: dict[str, Any] = {"budget": budget, "question": question, "study": study, "out": out, "jobs": jobs}
    options |= {"device": device, "executor": engine}
    advice = give_advice(path, target=target, reading=stated, changes=changes_by_name(changes), **options)
    print(advice)
    print(advice.path)
    return 0


def _engine(on: str, slurm: tuple[str, ...], device: str) -> EngineRequest | str:
    """Engine of the trainings; ValueError for one that is unknown, or a device that this machine lacks."""
    refuse_device_name(device)
    engine = engine_request(on, runs_per_job=None, options=slurm, device=device)
    if engine is None:  # Otherwise a worker has the device, not this machine.
        refuse_device(device)
    return engine or "local"


def _required(path: Path | None, wanted: scheme_questions.Wanted) -> Path:
    """The data of a race; ValueError without them, or with questions that --explain answers."""
    if wanted != scheme_questions.Wanted():
        raise ValueError(
            "--axes, --unbounded, --relative, --cache and --mask are for --explain. Add it, without a path."
        )
    if path is None:
        raise ValueError("name your file or folder: posenc advise PATH; or list schemes: posenc advise --explain")
    return path


def _explain(path: Path | None, wanted: scheme_questions.Wanted, unread: list[str]) -> int:
    """List schemes by their claims; ask if a terminal can answer and nothing was asked for."""
    if unread:
        raise ValueError(f"--explain trains nothing, so {', '.join(unread)} has no use here. Leave it out.")
    if path is not None:
        raise ValueError(f"--explain reads no data; got {path}. Leave one of them out.")
    if wanted.axes is not None and wanted.axes < 1:
        raise ValueError(f"--axes is a number of axes, 1 or more; got {wanted.axes}. Use --axes 2 for a plane.")
    if wanted == scheme_questions.Wanted() and sys.stdin.isatty() and sys.stdout.isatty():
        wanted = scheme_questions.ask(input)
    print(scheme_questions.text(index.load().schemes, wanted))
    return 0
