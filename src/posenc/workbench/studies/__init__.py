"""Studies: one question per folder, which ends in a ``STUDY``. The folder is walked: nothing lists the studies."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.lookup.scheme_text import unknown
from posenc.workbench import request_checks

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """Request to a study: the runs and panels that are wanted. None stands for the choice of the preset.

    Attributes:
        preset: Name of the preset.
        panels: Names of the panels.
        schemes: Labels of the variants.
        seeds: Seeds, from 0 to 2^63 - 1.
        device: PyTorch device of the runs.
        data: Folder of real data.
        source: File or folder of the user that the study reads, if it takes one.
        about: Name, NAME-DIGEST6, digest or path of the data that a report is about; "" for the only data of the store.
        changes: Name to value, for settings of the preset that differ, such as ``{"epochs": 4}``. A value may be text.
        lr_sweep: Learning rates of which one is chosen for each variant, on validation data.
        reading: Options of the reader of the user's file. For texts: ``{"field": "text"}``, ``{"dtype": "uint16"}``.
            For recordings: ``{"drop": True}`` drops channels that are constant or have missing values, ``{"fill":
            "linear"}`` fills missing values in time (their times are left out otherwise), and ``{"blocks": 10}`` cuts
            recordings of one subject.
        conditions: Labels of the conditions that are trained, of those that the panels need.

    Raises:
        ValueError: A list is empty or names something twice, a seed is out of range, or a rate is not above 0.

    Example:
        >>> from posenc.workbench import Request
        >>> request = Request(preset="quick", schemes=("rope", "alibi"), seeds=(0, 1, 2))
        >>> request.device
        'cpu'
    """

    preset: str
    panels: Sequence[str] | None = None
    schemes: Sequence[str] | None = None
    seeds: Sequence[int] | None = None
    device: str = "cpu"
    data: Path | None = None
    source: Path | None = None
    about: str = ""
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    lr_sweep: Sequence[float] | None = None
    reading: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    conditions: Sequence[str] | None = None

    def __post_init__(self) -> None:
        request_checks.refuse_seeds(self.seeds)
        request_checks.refuse_rates(self.lr_sweep)
        request_checks.refuse_repeated("scheme", self.schemes)
        request_checks.refuse_repeated("panel", self.panels)
        request_checks.refuse_repeated("condition", self.conditions)


def studies() -> dict[str, Study]:
    """Return all studies. They are discovered by walking the folder ``posenc/workbench/studies``.

    Returns:
        Studies by name.

    Example:
        >>> from posenc.workbench import all_studies
        >>> all_studies()["latin-squares"].question
        'Which encodings generalize on Latin squares?'
    """
    found = {}
    for file in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{file.name}")
        if hasattr(module, "STUDY"):
            found[module.STUDY.name] = module.STUDY
    return found


def find(name: str) -> Study:
    """Return a study by name.

    Args:
        name: Name of the study, such as "latin-squares".

    Returns:
        The study.

    Raises:
        ValueError: There is no study of that name; the message lists the names.

    Example:
        >>> from posenc.workbench import find_study
        >>> find_study("latin-squares").name
        'latin-squares'
    """
    known = studies()
    if name not in known:
        raise ValueError(f"{unknown('study', name, known)} The studies are {', '.join(known)}.")
    return known[name]


def refuse_preset(study: Study, preset: str) -> None:
    """Raise ValueError with the nearest names if the study has no such preset."""
    if preset not in study.presets:
        raise ValueError(
            f"{unknown('preset', preset, study.presets)} The presets of {study.name} are {', '.join(study.presets)}."
        )
