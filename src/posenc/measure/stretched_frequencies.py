"""Wavelengths of a scheme, and of the same scheme with frequencies that are stretched beyond the training length."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from posenc import frequencies
from posenc.lookup.scheme_text import Specification, find
from posenc.scheme import Scheme

METHODS = ("linear", "ntk", "yarn", "longrope")
"""Schedules that extend a context, by the name of their function."""


def schedule_arguments(count: int, factor: float, trained: int) -> dict[str, Any]:
    """Arguments of a frequency schedule that is drawn by name.

    YaRN's alpha and beta are those of a training length of some dozen tokens. LongRoPE's factors grow in equal steps:
    its authors search them for each model.

    Args:
        count: number of frequencies.
        factor: extension of the context.
        trained: training length in tokens.

    Returns:
        Name to value.
    """
    extended, steps = round(factor * trained), max(count - 1, 1)
    return {
        "count": count, "factor": factor, "trained": trained, "alpha": 0.5, "beta": 2.0, "length": extended,
        "extended": extended, "share": 0.25, "rescale": [1 + (factor - 1) * pair / steps for pair in range(count)],
    }  # fmt: skip


def schedule_options(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the arguments that a schedule needs, and YaRN's bounds.

    Args:
        function: the schedule.
        arguments: those of ``schedule_arguments``.

    Returns:
        Name to value.
    """
    parameters = inspect.signature(function).parameters.values()
    return {
        each.name: arguments[each.name]
        for each in parameters
        if each.default is each.empty or each.name in ("alpha", "beta")
    }


def angular_frequencies(scheme: Scheme) -> Tensor | None:
    """Return the angular frequencies of the first head, those of all axes.

    Args:
        scheme: the scheme.

    Returns:
        Frequencies in radians per unit of position, ``(n,)``; None for a scheme without a table of them.
    """
    if isinstance(directions := getattr(scheme, "B", None), Tensor):  # in cycles per unit of position
        return 2 * math.pi * directions.detach().double().norm(dim=-1)
    if isinstance(waves := getattr(scheme, "waves", None), Tensor):
        return waves.double()[0].norm(dim=-1).flatten()
    table = getattr(scheme, "theta", None)
    table = getattr(scheme, "frequencies", None) if table is None else table
    base = getattr(scheme, "base", None)
    if table is None and isinstance(base, int | float) and "embed" in scheme.claims.sites:
        return frequencies.geometric(scheme.out_dim // (2 * (scheme.claims.axes or 1)), base=base)
    if isinstance(table, tuple) and table and isinstance(table[0], tuple):  # the axes have different numbers of them
        return torch.tensor([value for axis in table for value in axis], dtype=torch.float64)
    if not isinstance(table, tuple | Tensor):
        return None
    values = torch.as_tensor(table, dtype=torch.float64).detach()
    return values if values.dim() == 1 else values[0].flatten()


def wavelengths(scheme: Scheme) -> list[float] | None:
    """Return the wavelengths of a scheme in units of position; infinity for a channel that does not turn.

    Args:
        scheme: the scheme.

    Returns:
        Wavelengths, or None for a scheme without a table of frequencies.
    """
    found = angular_frequencies(scheme)
    return None if found is None else [2 * math.pi / abs(each) if each else math.inf for each in found.tolist()]


def takes_schedule(kind: type[Scheme]) -> bool:
    """Return True for a scheme whose constructor takes a frequency schedule in place of a base.

    Args:
        kind: the scheme's class.

    Returns:
        True or False.
    """
    return {"frequencies", "base"} <= inspect.signature(kind).parameters.keys()


def stretched(call: Specification, count: int, factor: float, trained: int) -> dict[str, Specification]:
    """Return a call with the frequencies of each stretching method, of its own base.

    Args:
        call: a scheme of which ``takes_schedule`` is True.
        count: number of its frequencies.
        factor: extension of the context, at least 1.
        trained: training length in tokens.

    Returns:
        Name of the method to the call.
    """
    own = {name: value for name, value in call.options.items() if name not in ("frequencies", "base")}
    base = call.options.get("base", inspect.signature(find(call.scheme)).parameters["base"].default)
    arguments = schedule_arguments(count, factor, trained)
    calls = {}
    for name in METHODS:
        options = {**schedule_options(getattr(frequencies, name), arguments), "base": base}
        calls[name] = Specification(call.scheme, {**own, "frequencies": {"schedule": name, "options": options}})
    return calls
