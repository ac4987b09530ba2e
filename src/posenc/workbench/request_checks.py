"""Checks of a request that need no torch: seeds, learning rates, names of devices, files and folders.

The command line calls them before it loads torch; ``Request`` and the functions of ``posenc.workbench`` call them too.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from posenc.lookup.name_suggestion import unknown

DEVICES = ("cpu", "cuda", "xpu", "npu", "hpu", "mtia", "xla")
"""Kinds of devices of PyTorch on which runs may be possible; whether one is, torch tells."""
STORE_FILE = "format.json"
"""File that makes a folder a store."""
RENAMED_PANELS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "globe": {"seam": "date-line"},
        "gridpe": {"literal": "as-released", "pyramid": "pvt", "reach": "attention-distance"},
        "latin-squares": {"as-run": "as-released"},
        "points": {"moved": "invariance", "any": "rotations"},
        "sc-pe": {"beside": "concatenation", "starts": "readout-scale", "over": "multiplication"},
        "shape-fit": {"slopes": "eikonal"},
    }
)
"""Study to old name of a panel to its present name."""
KIND_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "text": "a text",
        "images": "labeled images",
        "clouds": "point clouds",
        "recordings": "recordings",
        "series": "time series",
        "places": "tables of places",
        "graphs": "graphs",
    }
)
KIND_STUDIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "text": ("language",),
        "images": ("gridpe", "sc-pe"),
        "clouds": ("points",),
        "recordings": ("masked",),
        "series": ("series",),
        "places": ("places",),
        "graphs": ("graphs",),
    }
)
"""Kind of data that readers read to the studies that take it."""
READING_OPTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "format": ("text", "images", "clouds", "series", "places", "graphs"),
        "labels": ("images", "graphs"),
        "size": ("images",),
        "fit": ("images",),
        "background": ("images",),
        "field": ("text",),
        "dtype": ("text",),
        "features": ("clouds", "places"),
        "scale": ("clouds",),
        "val": ("text",),
        "tokenizer": ("text",),
        "drop": ("recordings",),
        "fill": ("recordings",),
        "blocks": ("recordings",),
        "time": ("series", "places"),
        "id": ("series",),
        "target": ("series", "places"),
        "unit": ("series", "places"),
        "coordinates": ("places",),
        "geometry": ("places",),
        "groups": ("places",),
    }
)
"""Option of a reader to the kinds of data that it is for."""
CLOUD_FEATURES = ("none", "normals", "colors", "all")
"""Features of a point of clouds that may be stated."""


def refuse_seeds(seeds: Sequence[int] | None) -> None:
    """Check seeds.

    Args:
        seeds: Seeds; None for those of the preset.

    Raises:
        ValueError: One is out of range, or is given twice.
    """
    for seed in seeds or ():
        if not 0 <= seed < 2**63:
            raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1; got {seed}. Use --seeds 0 1 2.")
    refuse_repeated("seed", seeds)


def refuse_repeated(name: str, values: Sequence[object] | None) -> None:
    """Check a list of names or seeds.

    Args:
        name: What a value is, such as "seed".
        values: The values; None without any.

    Raises:
        ValueError: The list is empty, or has a value twice.
    """
    if values is None:
        return
    if not values:
        raise ValueError(f"no {name} is given; name at least one, or leave --{name}s out for the preset's own.")
    twice = [value for place, value in enumerate(values) if value in values[:place]]
    if twice:
        raise ValueError(f"{name} {twice[0]} is given twice; a second run of it would be the same. Name it once.")


def refuse_panels(study: str, asked: Iterable[str], known: Sequence[str]) -> None:
    """Check names of panels.

    Args:
        study: Id of the study.
        asked: The names.
        known: Names of the panels of the study.

    Raises:
        ValueError: A name is unknown; the message has the present name of a renamed panel, or the nearest name.
    """
    for name in asked:
        if name in known:
            continue
        if name in RENAMED_PANELS.get(study, ()):
            raise ValueError(f"the panel {name} is now {RENAMED_PANELS[study][name]}; ask for that name.")
        raise ValueError(f"{unknown('panel', name, known)} The panels are {', '.join(known)}.")


def refuse_conditions(asked: Iterable[str], known: Collection[str], needs: Callable[[str], str]) -> None:
    """Check labels of conditions.

    Args:
        asked: The labels.
        known: Labels of the conditions of the panels of a request.
        needs: Maps a label to what its condition needs beside a panel; "" for nothing, and for an unknown label.

    Raises:
        ValueError: A label is unknown; the message has the nearest one.
    """
    for label in asked:
        if label not in known:
            listed = ", ".join(map(repr, known))
            needed = needs(label)
            said = f"the condition {label!r} needs {needed}." if needed else unknown("condition", label, known)
            here = "have here" if needed else "have"
            raise ValueError(f"{said} The panels {here} the conditions {listed}.")


def refuse_rates(rates: Sequence[float] | None) -> None:
    """Check the learning rates of a sweep.

    Args:
        rates: Learning rates; None without a sweep.

    Raises:
        ValueError: A rate is not above 0, or there are fewer than two different ones.
    """
    if rates is None:
        return
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < float("inf"):
            raise ValueError(f"a learning rate is a number above 0; got {rate!r}. Use --lr-sweep 0.001 0.003 0.01.")
    if len(set(rates)) < 2 or len(set(rates)) < len(rates):
        raise ValueError(
            f"a sweep compares two different learning rates or more; got {', '.join(f'{rate:g}' for rate in rates)}. "
            "Use --lr-sweep 0.001 0.003 0.01; for one rate use --set lr=0.003."
        )


def refuse_device_name(device: str) -> None:
    """Check the name of a device. Whether this machine has the device is another question.

    Args:
        device: The name, such as "cuda:1".

    Raises:
        ValueError: PyTorch has no such device.
    """
    kind, colon, number = device.partition(":")
    if kind not in DEVICES or (colon and not re.fullmatch(r"[0-9]{1,4}", number)):
        raise ValueError(f"there is no device {device!r}. Use cpu, cuda or cuda:N.")
    if kind == "cpu" and colon:
        raise ValueError(f"the CPU is one device; got {device!r}. Use --device cpu, and --jobs N for the runs at once.")


def refuse_source(study: str, takes: str, source: Path | None) -> None:
    """Check the user's file or folder of a study.

    Args:
        study: Name of the study.
        takes: What the study takes; "" if it takes nothing.
        source: The file or folder; None without one.

    Raises:
        ValueError: The study takes no file, or the file does not exist.
    """
    if source is None:
        return
    if "=" in source.name and not source.exists():
        raise ValueError(f"there is no file {source}. If it is a setting, each has its own --set: --set {source}")
    if not takes:
        raise ValueError(f"{study} takes no file or folder; got {source}. Leave it out.")
    if not source.exists():
        raise ValueError(f"{source} does not exist. {study} takes {takes}.")


def reading_options(study: str, source: object, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the reader of a user's data that a command states.

    Args:
        study: Name of the study.
        source: The user's file or folder; None without one.
        options: Arguments of the command by name, among them those of READING_OPTIONS; None or False for an option that
            is not stated. Other arguments are no options of a reader.

    Returns:
        The stated options.

    Raises:
        ValueError: One has a wrong value, or is stated for another kind of data or without a file or folder.
    """
    named = {name: options.get(name) for name in READING_OPTIONS}
    stated = {name: value for name, value in named.items() if value is not None and value is not False}
    stated = {name: str(value) if isinstance(value, Path) else value for name, value in stated.items()}
    stated = {name: ",".join(value) if isinstance(value, (list, tuple)) else value for name, value in stated.items()}
    refuse_reading(study, source, stated)
    return stated


def refuse_unknown_reading(reading: Iterable[str]) -> None:
    """Check the names of options of a reader.

    Args:
        reading: The names.

    Raises:
        ValueError: One is unknown.
    """
    for name in reading:
        if name not in READING_OPTIONS:
            raise ValueError(
                f"{unknown('reading option', name, list(READING_OPTIONS))} They are {', '.join(READING_OPTIONS)}."
            )


def refuse_reading(study: str, source: object, reading: Mapping[str, Any]) -> None:
    """Check the options of the reader of a user's data.

    Args:
        study: Name of the study.
        source: The user's file; None without one.
        reading: The stated options by name.

    Raises:
        ValueError: One is unknown, has a wrong value, or is stated for another study or without a file.
    """
    kind = next((kind for kind, readers in KIND_STUDIES.items() if study in readers), "")
    refuse_unknown_reading(reading)
    for name, value in reading.items():
        option = f"--{name}" if value is True else f"--{name} {value}"
        if kind not in READING_OPTIONS[name]:
            takers = " or ".join(KIND_NAMES[each] for each in READING_OPTIONS[name])
            raise ValueError(f"{option} is for {takers}, and {study} reads none. Leave it out.")
        if source is None:
            raise ValueError(f"{option} is for your own data; name them: posenc run {study} PATH {option}")
    features = reading.get("features", CLOUD_FEATURES[0])
    if kind == "clouds" and features not in CLOUD_FEATURES:
        raise ValueError(
            f"{unknown('choice of features', features, CLOUD_FEATURES)} Those of a point are "
            f"{', '.join(CLOUD_FEATURES)}: --features normals"
        )
    size = reading.get("size", 1)
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"--size is a number of pixels, 1 or more; got {size}. Use --size 32.")
    if (fill := reading.get("fill", "linear")) != "linear":
        raise ValueError(f"missing values are filled linearly or not at all; got {fill!r}. Use 'linear'.")
    blocks = reading.get("blocks", 2)
    if not isinstance(blocks, int) or blocks < 2:
        raise ValueError(f"one long recording is cut into two blocks or more; got --blocks {blocks}. Use --blocks 10.")


def refuse_scheme_file(path: Path) -> None:
    """Check the path of a Python file with schemes.

    Args:
        path: The path.

    Raises:
        ValueError: There is no such file.
    """
    if path.suffix != ".py" or not path.is_file():
        raise ValueError(f"there is no file {path}. Give a Python file with a class that subclasses posenc.Scheme.")


def refuse_folder(path: Path, option: str) -> None:
    """Check that a folder exists or can be made.

    Args:
        path: The folder.
        option: Option that names it, for the message.

    Raises:
        ValueError: It or a folder on the way to it is a file, or cannot be written.
    """
    existing = next(folder for folder in (path.absolute(), *path.absolute().parents) if os.path.lexists(folder))
    if not existing.is_dir():
        raise ValueError(no_folder(path, option))
    if existing != path.absolute() and not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{path} cannot be made, because {existing} is not writable. Choose another with {option}.")


def refuse_no_store(path: Path) -> None:
    """Check that a folder is a store.

    Args:
        path: The folder.

    Raises:
        ValueError: It is none.
    """
    if not (path / STORE_FILE).exists():
        raise ValueError(no_results(path))


def refuse_pack(path: Path) -> None:
    """Check that there is something at the path of a pack.

    Args:
        path: The path.

    Raises:
        ValueError: There is nothing.
    """
    if not path.exists():
        raise ValueError(no_pack(path))


def no_folder(path: Path, option: str) -> str:
    """Message for a file in the place of a folder.

    Args:
        path: The path.
        option: Option that names it.

    Returns:
        Two sentences.
    """
    return f"{path} (or a folder on the way to it) is a file, and a folder is needed. Choose another with {option}."


def no_results(path: Path) -> str:
    """Message for a folder that is no store.

    Args:
        path: The folder.

    Returns:
        Two sentences.
    """
    return f"There are no results in {path}. Make some first: posenc run --help; or name their folder: --out DIR"


def no_pack(path: Path) -> str:
    """Message for a pack that does not exist.

    Args:
        path: The path.

    Returns:
        Two sentences.
    """
    return f"{path} is not there. Name a pack, a folder of packs or a store."


def refuse_missing_packages(*packages: str) -> None:
    """Check before training that the packages of the page are installed.

    Args:
        *packages: Names of the packages.

    Raises:
        ValueError: One is not installed; the message names the command that installs it.
    """
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ValueError(f"a study's page needs {missing[0]}, which is not installed: pip install 'posenc[analysis]'")
