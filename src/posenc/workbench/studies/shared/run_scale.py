"""Scale of a page's runs in one sentence: models and training, from settings and results alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from posenc.workbench.report.number_format import count
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared.page_data import PageData

if TYPE_CHECKING:
    from posenc.workbench.studies.shared.study import Study


def scale(study: Study, data: PageData) -> str:
    """Describe the models and the training of the runs of a page.

    Args:
        study: The study.
        data: The data of the page.

    Returns:
        A phrase for each condition, such as "95,552 parameters, width 64, 4 layers; 600 steps of batches of 32"; equal
        phrases once. "" without trained models.
    """
    phrases = dict[str, list[str]]()
    for label in data.conditions:
        specs = [spec for spec in data.specs if spec.condition == label and spec.settings.get("training")]
        if specs:
            title = study.condition(label).title or label
            phrase = "; ".join(filter(None, (_models(data, specs), _training(study, data, specs))))
            phrases.setdefault(phrase, []).append(title)
    if len(phrases) == 1:
        return next(iter(phrases))
    return ". ".join(f"{', '.join(titles)}: {phrase}" for phrase, titles in phrases.items())


def _models(data: PageData, specs: Sequence[RunSpec]) -> str:
    """Numbers of parameters, and the width and the layers that all models have."""
    done = [spec for spec in specs if data.store.finished(spec.identity)]
    parameters = [data.store.read(spec.identity).metrics.get("parameters") for spec in done]
    known = sorted({int(each) for each in parameters if each})
    sizes = {_sizes(spec.settings) for spec in specs}
    phrase = f"{known[0]:,}" + (f" to {known[-1]:,}" if len(known) > 1 else "") + " parameters" if known else ""
    return ", ".join(filter(None, (phrase, *(sizes if len(sizes) == 1 else ()))))


def _sizes(settings: Mapping[str, Any]) -> str:
    """Width and layers of a model, such as "width 64, 4 layers"; "" if its settings have none."""
    row = settings.get("row")
    model = settings.get("model") or (row.get("config") if isinstance(row, Mapping) else None) or {}
    stages = model.get("stages") or [model]
    if not all("dim" in stage and "depth" in stage for stage in stages):
        return ""
    widths, layers = ([stage[name] for stage in stages] for name in ("dim", "depth"))
    if len(stages) == 1:
        return f"width {widths[0]}, {count(layers[0], 'layer')}"
    return f"stages of width {', '.join(map(str, widths))} with {', '.join(map(str, layers))} layers"


def _training(study: Study, data: PageData, specs: Sequence[RunSpec]) -> str:
    """Time limit, or number of steps with the batch. Runs of earlier versions have epochs in their settings alone."""
    trained, batches = [spec.settings["training"] for spec in specs], set[int]()
    batches.update(training["batch"] for training in trained if "batch" in training)
    batch = f" of batches of {_range(batches)}" if batches else ""
    if seconds := {training["seconds"] for training in trained if training.get("seconds")}:
        return f"{_range(seconds)} s of training for each model"
    done = [spec for spec in specs if data.store.finished(spec.identity)]
    steps = {data.store.read(spec.identity).timing.get("steps") for spec in done} - {None}
    if steps:
        return f"{_range(steps)} steps{batch}"
    in_steps = not study.passes or all("split" in spec.settings for spec in specs)
    return f"{_range({training['epochs'] for training in trained})} {'steps' if in_steps else 'epochs'}{batch}"


def _range(values: set[Any]) -> str:
    ordered = sorted(values)
    return f"{ordered[0]:,g}" if len(ordered) == 1 else f"{ordered[0]:,g} to {ordered[-1]:,g}"
