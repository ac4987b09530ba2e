"""Panel with the lines that load the best model of a page."""

from __future__ import annotations

import math
from shlex import quote

from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Panel, Preformatted, Text
from posenc.workbench.storage import own_scheme_records
from posenc.workbench.storage.stored import Stored
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.studies.shared.stored_model import StoredModel

TITLE = "Load the best model"
DIGITS = 12
"""Digits of the identity that name the run."""


def loading_panel(declared: StoredModel | None, data: PageData) -> Panel | None:
    """Show three lines of Python that load the best run of a page, and what its model reads and returns.

    Args:
        declared: Model whose weights the runs of the study store; None if they store none.
        data: Data of the page.

    Returns:
        The panel; None if no run of the page has weights.
    """
    if declared is None:
        return None
    stored, metric = best_run(declared, data)
    if stored is None:
        return None
    spec = stored.spec
    condition = "" if spec.condition == MAIN else f", condition {spec.condition}"
    best = (
        f"Run with the {'highest' if declared.metrics[metric] == 'max' else 'lowest'} {metric}, "
        f"{number(stored.metrics[metric], 4)}"
        if metric
        else "First run"
    )
    sources = [record.source for record in own_scheme_records.records_of(data.store, [spec.variant])]
    schemes = f", schemes={sources!r}" if sources else ""
    flags = f" --schemes {' '.join(map(quote, sources))}" if sources else ""
    lines = (
        "import posenc",
        f"model = posenc.load({str(data.store.root)!r}, run={spec.identity[:DIGITS]!r}{schemes})",
        "print(model.convention)",
    )
    sentences = (f"{best}: {spec.variant}{condition}, seed {spec.seed}. These lines load it in evaluation mode.",)
    out = "" if str(data.store.root) == "runs" else f" --out {quote(str(data.store.root))}"
    command = (
        f"As a file: posenc export {spec.identity[:DIGITS]} --to FILE{flags}{out}, with FILE ending in "
        f"{_endings(declared)}."
    )
    blocks = (Text(sentences), Preformatted("\n".join(lines)), Text((declared.convention(spec), command)))
    return Panel(TITLE, blocks)


def _endings(declared: StoredModel) -> str:
    """Suffixes of the files that a run with weights can be written to."""
    hooks = {".onnx": declared.example, ".png": declared.picture, ".ply": declared.surface}
    return ", ".join([".safetensors", ".csv", *(suffix for suffix, hook in hooks.items() if hook is not None)])


def best_run(declared: StoredModel, data: PageData) -> tuple[Stored | None, str]:
    """Find the best run of a page in its main condition, or without one in its first condition.

    Args:
        declared: Names the metric.
        data: Data of the page.

    Returns:
        The run and the metric; None without a run that has weights, and "" without a metric.
    """
    every = [data.store.read(spec.identity) for spec in data.done]
    named = [(spec, stored) for spec, stored in zip(data.done, every, strict=True) if stored.has_network]
    conditions = list(dict.fromkeys(spec.condition for spec, _ in named))
    chosen = MAIN if MAIN in conditions else next(iter(conditions), "")
    runs = [stored for spec, stored in named if spec.condition == chosen]
    for metric, best in declared.metrics.items():
        finite = [run for run in runs if math.isfinite(run.metrics.get(metric, math.nan))]
        if finite:
            sign = -1 if best == "max" else 1
            return min(finite, key=lambda run: (sign * run.metrics[metric], run.spec.seed)), metric
    return (runs[0] if runs else None), ""
