"""``posenc data``: make, download or check the data of a task."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

from posenc.cli import data_description
from posenc.cli.grammar import Positional, arg
from posenc.workbench.files.output_files import refuse_output, write_outputs
from posenc.workbench.files.user_files import require_file
from posenc.workbench.memory import require_memory
from posenc.workbench.request_checks import READING_OPTIONS, refuse_folder

if TYPE_CHECKING:
    from posenc.workbench.data.forms import Form

MOST_PUZZLES = 576 * 16 * 2**15
PUZZLE_BYTES = 52
"""Bytes of a puzzle's arrays, 18, and of the number by which it is compared with the others, 8, each held twice."""


def data(
    task: Positional[
        Literal["latin-squares", "fashion-mnist", "cifar-10", "imagenet-100", "recordings", "development-fmri", "hcp"]
    ],
    read: Path | None = None,
    to: Path | None = None,
    train: int = 8000,
    iid: int = 1000,
    ood: int = 300,
    subjects: int = 10,
    drop: bool = False,
    blocks: int | None = None,
    gap: int = 20,
    rule: Literal["authors", "entailment"] = "authors",
    seed: int = 0,
    force: bool = False,
) -> int:
    """Make or download the data of a task, or check your own data file.

    For example:

    posenc data latin-squares --to puzzles.npz --train 8100 --seed 3

    posenc data latin-squares --read my_puzzles.csv

    posenc data fashion-mnist

    posenc data cifar-10

    posenc data recordings --read mine.npz --drop --to whole.npz

    posenc data recordings --read one_long.npz --blocks 10 --gap 20 --to pieces.npz

    posenc data development-fmri --to brains --subjects 20

    posenc data hcp

    Args:
        task: Name of the task.
        read: Your own file, to check and describe it: puzzles as CSV in the authors' format, or recordings.
        to: New file to write; for downloads a folder (default: $POSENC_CACHE or the system's cache folder).
        train: Number of training puzzles.
        iid: Number of held-out puzzles of the training distribution.
        ood: Number of out-of-distribution puzzles; the other puzzles keep a minimum distance to them.
        subjects: Number of subjects of development-fmri, downloaded with nilearn.
        drop: Leave out channels of recordings that are constant or not finite.
        blocks: Cut the recordings of one subject into this number of blocks, so that some can be held out.
        gap: Time steps left out between two blocks.
        rule: Definition of the three puzzle classes.
        seed: Seed of the puzzles; equal seeds give equal puzzles on every machine.
        force: Replace the file if it exists. A link, a device or a folder is never replaced.
    """
    if task == "fashion-mnist":
        return _download(read, to)
    if task == "development-fmri":
        return _fetch(read, to, subjects)
    if task == "recordings":
        return _recordings(read, to, drop, blocks, gap, force)
    if task in ("cifar-10", "imagenet-100"):
        from posenc.workbench.tasks.images.own_copies import OWN_COPIES

        print(OWN_COPIES[task], end="")
        return 0
    if task == "hcp":
        from posenc.workbench.tasks import brain

        print(brain.HCP_INSTRUCTIONS, end="")
        return 0
    return _puzzles(read, to, (train, iid, ood), rule, seed, force)


def look(
    path: Positional[Path],
    format: str | None = None,
    labels: Annotated[str | None, arg(metavar="FILE")] = None,
    field: str | None = None,
    dtype: Literal["bytes", "uint16", "uint32"] | None = None,
    features: Annotated[tuple[str, ...] | None, arg(metavar="NAME ..")] = None,
    scale: Literal["unit", "keep"] | None = None,
    val: Annotated[str | None, arg(metavar="PATH")] = None,
    tokenizer: Annotated[str | None, arg(metavar="NAME|PATH")] = None,
    time: Annotated[str | None, arg(metavar="COLUMN")] = None,
    id: Annotated[str | None, arg(metavar="COLUMN")] = None,
    target: Annotated[str | None, arg(metavar="COLUMN,..")] = None,
    unit: Literal["second", "minute", "hour", "day", "week", "month", "year"] | None = None,
    coordinates: Annotated[tuple[str, ...] | None, arg(metavar="COLUMN ..")] = None,
    geometry: Literal["sphere", "plane", "space"] | None = None,
    groups: Annotated[str | None, arg(metavar="COLUMN")] = None,
) -> int:
    """Say what a file or folder is read as, and print the commands that train on it.

    For example:

    posenc data look texts/

    posenc data look train.bin --dtype uint16

    posenc data look photographs/ --labels labels.csv

    Args:
        path: Your file or folder.
        format: Form to read your data as, where two are possible.
        labels: CSV with the columns file and label, for a folder of images without class folders; or with the columns
            node and label, for a table of edges.
        field: Field with the text in JSON Lines or Parquet.
        dtype: What a .bin file holds: bytes, or token ids of this type.
        features: Features beside the coordinates: of a point of clouds, for the printed command; of places, columns.
        scale: Normalization of clouds, for the printed command.
        val: A second text, on which results are reported.
        tokenizer: Tokens of a text: characters, bytes, words, words:2000, or a tokenizer.json. Default: characters.
        time: Column with the times of a table of series or of places.
        id: Column with the names of the series.
        target: Columns with the values of the series, divided by commas; of places, the column to predict.
        unit: What times count that are numbers.
        coordinates: Columns with the coordinates of places.
        geometry: Kind of the coordinates of places: longitude and latitude, two or three coordinates of one unit.
        groups: Column of places whose equal values stay on one side of each split.
    """
    if not path.exists():
        raise ValueError(f"there is no file {path}. Give the path of your data.")
    from posenc.workbench.data.forms import forms_of, has_edges, labeled_images_of, stated_form, with_named_columns

    options: dict[str, Any] = {"format": format, "labels": labels, "field": field, "dtype": dtype, "scale": scale}
    options |= {"val": val, "tokenizer": tokenizer, "time": time, "id": id, "target": target, "unit": unit}
    options |= {"coordinates": ",".join(coordinates or ()) or None, "features": ",".join(features or ()) or None}
    options |= {"geometry": geometry, "groups": groups}
    stated = {name: value for name, value in options.items() if value is not None}
    if format is not None:
        forms = [stated_form(path, format)]
    else:
        forms = forms_of(path) if labels is None or has_edges(path) else [labeled_images_of(labels)]
        forms = with_named_columns(forms, path, time, options["coordinates"])
    taken = False
    for form in forms:
        print(f"{path} is read as {form.name}, because {form.reason}.")
        flags = "".join(f" --{name} {quote(value)}" for name, value in _of_kind(stated, form.kind).items())
        try:
            flags += _describe(form, path, stated, flags)
        except ValueError as error:
            if len(forms) == 1:
                raise ValueError(f"as it is, no study takes it: {error}") from None
            print(f"  As it is, no study takes it: {error}")
            continue
        taken = taken or bool(form.studies)
        if form.kind == "places" and target is None:
            flags += f" --target {quote(data_description.example_target(path, _of_kind(stated, form.kind)))}"
        for study in form.studies:
            print(f"  posenc run {study} {quote(str(form.within or path))}{flags}")
    if not taken:
        raise ValueError(f"as it is, no study takes {path}. The lines above say what is needed.")
    return 0


def _describe(form: Form, path: Path, stated: dict[str, str], flags: str) -> str:
    """Print what a form of data holds. Further flags of its command. Raises ValueError if no study takes it."""
    where, printed = form.within or path, data_description.printed
    if form.studies == ("language",):
        text, documents = data_description.read_text(path, _of_kind(stated, "text"))
        return printed(lambda: data_description.text_lines(path, text, documents))
    if form.kind == "clouds":
        for line in (*data_description.cloud_lines(path), data_description.unread("clouds", "points", path, flags)):
            print(f"  {line}")
        return ""
    if form.kind == "images":
        found = printed(lambda: data_description.record_lines(where, "images", stated))
        if form.contents != "arrays":
            print(f"  {data_description.unread('images', form.studies[0], where, flags)}")
        return found
    if form.kind == "graphs":
        return printed(lambda: data_description.graph_lines(where, _of_kind(stated, "graphs")))
    if form.kind == "places":
        return printed(lambda: data_description.place_lines(where, _of_kind(stated, "places")))
    if form.kind == "series":
        return printed(lambda: data_description.series_lines(where, _of_kind(stated, "series")))
    for line in form.lines:
        print(f"  {line}")
    if form.contents == "recordings":
        return printed(lambda: data_description.recording_lines(where))
    if form.contents == "mesh":
        return printed(lambda: data_description.mesh_lines(where))
    if form.contents:
        print(f"  {data_description.unread(form.contents, form.studies[0], where)}")
    return ""


def _of_kind(stated: dict[str, str], kind: str) -> dict[str, str]:
    return {name: value for name, value in stated.items() if kind in READING_OPTIONS[name]}


def _puzzles(
    read: Path | None,
    to: Path | None,
    sizes: tuple[int, int, int],
    rule: Literal["authors", "entailment"],
    seed: int,
    force: bool,
) -> int:
    if (read is None) == (to is None):
        raise ValueError("pass either --to FILE, which makes puzzles, or --read FILE.csv, which checks yours.")
    if to is not None:
        refuse_output(to, force)
        _refuse_counts(*sizes)
        if seed < 0:
            raise ValueError(f"--seed is a number of at least 0; got {seed}. Leave it out for 0.")
    if read is not None:
        require_file(read, "a table of puzzles (.csv)")
    from posenc.workbench.tasks import latin_squares

    if read is not None:
        puzzles = latin_squares.read_csv(read, rule)
        counts = {f"{kind}-vector": int((puzzles.kind == kind).sum()) for kind in (1, 2, 3)}
        print(f"{read}: {len(puzzles)} puzzles, each with one answer: {counts}, digest {puzzles.digest()[:16]}")
        return 0
    assert to is not None
    made = latin_squares.generate_dataset(*sizes, seed=seed, rule=rule)
    write_outputs([(to, lambda partial: latin_squares.save_dataset(made, partial))], force=force)
    print(json.dumps(made.manifest, indent=2))
    print(to)
    return 0


def _refuse_counts(train: int, iid: int, ood: int) -> None:
    """Raise ValueError for more puzzles than exist or fit into memory, for fewer than none, or for none to train on."""
    for flag, count, least in (("--train", train, 1), ("--iid", iid, 0), ("--ood", ood, 0)):
        if count < least:
            raise ValueError(f"{flag} is a number of puzzles, {least} or more; got {count}.")
    total = train + iid + ood
    if total > MOST_PUZZLES:
        raise ValueError(
            f"{total:,} puzzles were asked for, and 576 squares have at most {MOST_PUZZLES:,}: each of 16 probes with "
            "any of the other 15 cells shown. Ask for fewer: --train 100000"
        )
    require_memory(PUZZLE_BYTES * total, f"making {total:,} puzzles", "Ask for fewer: --train 100000")


def _recordings(path: Path | None, to: Path | None, drop: bool, blocks: int | None, gap: int, force: bool) -> int:
    if path is None:
        raise ValueError("name the file to read: posenc data recordings --read FILE")
    if not path.exists():
        raise ValueError(f"there is no file {path}. Give the path of recordings: an .npz, or a folder of tables.")
    if to is not None:
        refuse_output(to, force)
    if blocks is not None and blocks < 1:
        raise ValueError(f"--blocks is a number of at least 1; got {blocks}. Leave it out to cut nothing.")
    if gap < 0:
        raise ValueError(f"--gap is a number of time steps, 0 or more; got {gap}. Leave it out for 20.")
    from posenc.workbench.tasks import recordings

    loaded = recordings.read_recordings(path, drop=drop)
    if blocks is not None:
        loaded = recordings.cut_into_blocks(loaded, blocks, gap)
    times = sorted({each.shape[1] for each in loaded.series})
    description = {
        "recordings": len(loaded),
        "subjects": len(set(loaded.subjects)),
        "channels": len(loaded.channels),
        "times": times[0] if len(times) == 1 else [times[0], times[-1]],
        "modules": None if loaded.modules is None else len(set(loaded.modules)),
        "coordinates": None if loaded.coordinates is None else loaded.coordinates.shape[1],
        "left out": list(loaded.dropped),
    }
    print(json.dumps(description, indent=2))
    if to is not None:
        recordings.write_recordings(loaded, to, force=force)
        print(to)
    return 0


def _download(read: Path | None, to: Path | None) -> int:
    if read is not None:
        raise ValueError(
            "fashion-mnist is downloaded, so --read has no use here. To use your own copy: posenc run STUDY --data DIR"
        )
    if to is not None:
        refuse_folder(to, "--to")
    from posenc.workbench.tasks import images

    print(images.download_files(images.FASHION_MNIST, to or images.cache_folder()))
    return 0


def _fetch(read: Path | None, to: Path | None, subjects: int) -> int:
    if read is not None:
        raise ValueError(
            "development-fmri is downloaded, so --read has no use here. To use your own images: posenc run masked DIR"
        )
    if subjects < 2:
        raise ValueError(f"a study needs 2 subjects at least; got --subjects {subjects}. Leave it out for 10.")
    if to is not None:
        refuse_folder(to, "--to")
    from posenc.workbench.tasks import brain, images

    print(brain.download_development_fmri(to or images.cache_folder() / "development-fmri", subjects))
    return 0
