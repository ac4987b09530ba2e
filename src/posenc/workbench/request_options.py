"""Options of a request as a call in Python gives them: schemes, seeds, learning rates, names and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from posenc.lookup import own_files, own_scheme
from posenc.scheme import Scheme
from posenc.workbench import request_checks, studies
from posenc.workbench.studies import Request
from posenc.workbench.studies.shared.study import Study

PAGE_PACKAGES = ("scipy", "statsmodels", "matplotlib", "jinja2")
"""Packages that write the page of a study."""
SchemeOfRun = str | Scheme | type[Scheme] | tuple[str | Scheme | type[Scheme], str]
"""A scheme of a request: a text, a class or an object, alone or with the name of a view of the positions."""


def request_of_call(
    definition: Study,
    preset: str,
    *,
    source: str | Path | None,
    panels: Sequence[str] | None,
    schemes: Sequence[SchemeOfRun] | None,
    data: str | Path | None,
    others: Mapping[str, Any],
) -> Request:
    """Make the request of a call in Python, checked before anything starts.

    Args:
        definition: The study.
        preset: Name of the preset.
        source: The user's own file or folder; None without one.
        panels: Names of panels; None for those of the preset.
        schemes: Names, texts, Python files, and schemes of your own; None for those of the preset.
        data: Folder of real data; None without one.
        others: Further attributes of the request.

    Returns:
        The request.

    Raises:
        ValueError: A package of the page is missing, a name is unknown, or a file or folder does not exist.
    """
    request_checks.refuse_missing_packages(*PAGE_PACKAGES)
    studies.refuse_preset(definition, preset)
    source, data = (None if path is None else Path(path) for path in (source, data))
    request_checks.refuse_source(definition.name, definition.takes, source)
    if data is not None and not data.is_dir():
        raise ValueError(f"data={str(data)!r} is not a folder. Give the folder of the data, or leave data out.")
    names = {"panels": names_of("panels", panels), "schemes": scheme_names(schemes)}
    return Request(preset=preset, data=data, source=source, **names, **others)


def seeds_of_call(seeds: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Seeds of a call: a number of seeds counted from 0, or a list; None for those of the preset."""
    if isinstance(seeds, int):
        if seeds < 1:
            raise ValueError(f"At least one seed is needed; got seeds={seeds}. Use seeds=3, or a list: seeds=[0, 1].")
        return tuple(range(seeds))
    return None if seeds is None else tuple(seeds)


def rates_of_call(rates: Sequence[float] | None) -> tuple[float, ...] | None:
    """Learning rates of a call; None without a sweep."""
    if isinstance(rates, (int, float, str)):
        raise ValueError(f"lr_sweep takes a list of learning rates; got {rates!r}. Write lr_sweep=[0.001, 0.003].")
    return None if rates is None else tuple(rates)


def scheme_names(schemes: Sequence[SchemeOfRun] | None) -> tuple[str, ...] | None:
    """Names of the schemes of a request.

    Args:
        schemes: Names, texts, files and modules of your own, and classes or objects, alone or in a pair with the name
            of a view; None for none.

    Returns:
        Names and texts. A file stands for each of its schemes.

    Raises:
        ValueError: A scheme of your own cannot be read.
    """
    if schemes is None or isinstance(schemes, str | Scheme | type):
        schemes = None if schemes is None else (schemes,)
    texts: list[Any] = []
    for given in schemes or ():
        scheme, view = given if isinstance(given, tuple) and len(given) == 2 else (given, "")
        ending = f"@{view}" if view else ""
        if isinstance(scheme, str):
            texts += [text + ending for text in own_files.texts_with_names(scheme)]
        else:
            texts.append(own_scheme.text_of(scheme) + ending if isinstance(scheme, Scheme | type) else scheme)
    return None if schemes is None else names_of("schemes", texts)


def names_of(option: str, values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names that a call gives to an option: one name or several; None for those of the preset."""
    if values is None:
        return None
    values = (values,) if isinstance(values, str) else tuple(values)
    for value in values:
        if not isinstance(value, str):
            raise ValueError(f"{option} takes names as text; got {type(value).__name__}. Write {option}=['rope'].")
    return values
