"""The numbers of the points study as panels: accuracy, other numbers of points, moved and turned clouds, the rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import numpy as np

from posenc.measure.statistics import mean, t_interval
from posenc.workbench.report.line_plot import line_plot
from posenc.workbench.report.number_format import NO_BREAK, interval, number
from posenc.workbench.report.page import Figure, FigureGroup, Panel, Table, Text
from posenc.workbench.report.result_rows import BySeed
from posenc.workbench.report.score_plot import Score, score_plots
from posenc.workbench.report.svg_style import FIRST, MUTED, canvas, id_prefix, page_svg, plot_style
from posenc.workbench.studies.points import rows, work
from posenc.workbench.studies.points.presets import ANY, SPOT
from posenc.workbench.studies.points.published import COUNTS, PRINTED, SOURCE
from posenc.workbench.studies.shared.classification_panels import empty, of, scheme_text, there
from posenc.workbench.studies.shared.page_data import PageData

PAIRS = {
    "accuracy_arranged": ("Of the same pieces", "told apart in pairs"),
    "accuracy_mirrored": ("Mirror images", "told apart in pairs"),
}
ONE_COW = (
    "Clouds are of one cow, those to learn from and those held out alike, about other points of her: this is "
    "interpolation."
)
NO_SPOT = "Spot was not at hand (--data DIR with mesh/spot.npz), so her parts were not run."


def settings(found: PageData, *, spot: bool = False, turned: bool = False) -> list[str]:
    """The settings of a panel in which something has finished."""
    run = there(found, found.conditions)
    return [name for name in run if (name == SPOT) == spot and name.endswith(ANY) == turned]


def classes(found: PageData, setting: str) -> int:
    return next(spec.settings["model"]["classes"] for spec in found.specs if spec.condition == setting)


def accuracy(found: PageData) -> list[Panel]:
    return _accuracies(found, settings(found)) or empty("Accuracy")


def of_spot(found: PageData) -> list[Panel]:
    panels = _accuracies(found, settings(found, spot=True))
    return [dataclasses.replace(panel, caption=f"{ONE_COW} {panel.caption}".strip()) for panel in panels] or [
        Panel("Accuracy: spot", (Text((NO_SPOT,)),))
    ]


def any_way(found: PageData) -> list[Panel]:
    """Clouds that were turned in any way while a model learned, too."""
    names = settings(found, turned=True)
    return [*_accuracies(found, names), *_lines_of_points(found, names)] or empty("Accuracy: turned any way")


def _accuracies(found: PageData, names: Sequence[str]) -> list[Panel]:
    panels = []
    for name in names:
        count = classes(found, name)
        metrics = {"accuracy": Score(f"All {count} classes", "accuracy", True, (0.0, 1.0))}
        marks = {"accuracy": {"chance": 1 / count}}
        for metric, (title, noun) in PAIRS.items():
            if of(found, metric, name):
                metrics[metric] = Score(title, noun, True, (0.0, 1.0))
                marks[metric] = {"chance": 0.5}
        caption = (
            "Held-out clouds, with as many points as those that were learned from. blind carries nothing at all; nope "
            "knows the shape of every neighbourhood, and not where it is."
        )
        panels.append(
            score_plots(
                found.rows, metrics=metrics, condition=name, lines=marks, title=f"Accuracy: {name}", caption=caption
            )
        )
    return panels


def points(found: PageData) -> list[Panel]:
    """SPEC: version 3's table, accuracy at other numbers of points than the trained one."""
    names = settings(found)
    return [*_lines_of_points(found, names), *_printed()] if names else empty("Other numbers of points")


def _lines_of_points(found: PageData, names: Sequence[str]) -> list[Panel]:
    panels = []
    for name in names:
        trained = next(spec.settings["points"] for spec in found.specs if spec.condition == name)
        series: dict[str, dict[float, BySeed]] = {}
        for ratio in work.RATIOS:
            metric = "accuracy" if ratio == 1 else f"accuracy_x{ratio:g}"
            for label, seeds in of(found, metric, name).items():
                series.setdefault(label, {})[float(round(ratio * trained))] = seeds
        panels.append(
            line_plot(
                {label: series[label] for label in _best_first(found, name) if label in series},
                title=f"Other numbers of points: {name}",
                x_label="points of a cloud",
                y_label="accuracy",
                chance=1 / classes(found, name),
                log_x=True,
                note=f"Trained at {trained}.",
            )
        )
    return panels


def _printed() -> list[Panel]:
    body = tuple((label, *(number(value, 3) for value in values)) for label, values in PRINTED.items())
    columns = ("Encoding", *(f"{count:,} points" for count in COUNTS))
    note = f"{SOURCE}. Single runs of another model on other clouds: compare orders, not numbers."
    return [Panel("As printed", (Table("Accuracy after training at 512 points", columns, body, note),))]


def moved(found: PageData) -> list[Panel]:
    """What a move and a turn change, as accuracy and as a change of the logits."""
    panels = []
    for name in settings(found):
        series: dict[str, dict[float, BySeed]] = {}
        for length in (0.0, *work.MOVES):
            metric = f"accuracy_moved_{length:g}" if length else "accuracy"
            for label, seeds in of(found, metric, name).items():
                series.setdefault(label, {})[length] = seeds
        panels.append(
            line_plot(
                {label: series[label] for label in _best_first(found, name) if label in series},
                title=f"Moved clouds: {name}",
                x_label="moved by, in radii of a cloud",
                y_label="accuracy",
                chance=1 / classes(found, name),
                note="No cloud was moved while a model learned.",
            )
        )
        seen = [row for row in found.rows if not str(row["scheme"]).startswith("blind")]  # which nothing changes
        told = {
            "change_moved_1": Score("Moved by one radius", "change of logits", False, (0.0, None)),
            "change_turned": Score("Turned any way", "change of logits", False, (0.0, None)),
            "accuracy_turned": Score("Turned any way", "accuracy", True, (0.0, 1.0)),
        }
        caption = (
            "The change is that of the logits, in their own spread over classes and clouds: 0 where nothing is seen of "
            "it, up to rounding."
        )
        panels.append(
            score_plots(
                seen, metrics=told, condition=name, title=f"What a move and a turn change: {name}", caption=caption
            )
        )
    return panels or empty("Moved clouds")


def _best_first(found: PageData, name: str) -> list[str]:
    by_label = of(found, "accuracy", name)
    return sorted(by_label, key=lambda label: (-mean(list(by_label[label].values())), label))


def what_is_seen(found: PageData) -> list[Panel]:
    """One held-out cloud of each class, as it stands before it is turned."""
    panels = []
    for name in [*settings(found), *settings(found, spot=True)]:
        spec = next(spec for spec in found.done if spec.condition == name)
        data, count = spec.settings["data"], spec.settings["points"]
        made = "folder" not in data
        parts = work.clouds(found.store.root, {**data, "train": 1, "test": 1} if made else data, spec.seed)
        test, pictures, body = parts.test, [], []
        for number_, title in enumerate(test.classes):
            cloud = test.points[int((test.labels == number_).nonzero()[0])][:count].numpy()
            pictures.append(Figure(_drawn(cloud, f"{name}-{title}"), title, f"{count} points of one cloud: {title}."))
            many = [
                data[part] if made else int((getattr(parts, part).labels == number_).sum())
                for part in ("train", "test")
            ]
            body.append((title, *map(str, many)))
        key = f"{count} points of one cloud of each class, seen from above one side; what is further back is paler."
        notes = [Text(test.notes)] if test.notes else []
        table = Table("Clouds of each class", ("Class", "To learn from", "Held out"), tuple(body))
        panels.append(Panel(f"The clouds: {name}", (FigureGroup(tuple(pictures), key, table, "tiny"), *notes)))
    return panels or empty("The clouds")


def _drawn(cloud: np.ndarray, name: str) -> str:
    x, y, z = cloud.astype(float).T
    across, up, depth = (x - y) / np.sqrt(2), 0.9 * z + 0.44 * (x + y) / np.sqrt(2), (x + y) / np.sqrt(2)
    with plot_style():
        figure, axes = canvas(110, 110, 2, 2, 2, 2)
        for far, colour in ((True, MUTED), (False, FIRST)):
            here = (depth > 0) == far
            axes.scatter(across[here], up[here], s=4, color=colour, linewidths=0, alpha=0.6 if far else 0.9)
        axes.set_xlim(-1.05, 1.05)
        axes.set_ylim(-1.05, 1.05)
        axes.axis("off")
        return page_svg(figure, id_prefix("cloud", name))


def what_rows_are(found: PageData) -> list[Panel]:
    """What each row is, and how many numbers it trains."""
    carried = {"none": "nothing", "shape": "neighbourhood", "xyz": "neighbourhood and coordinates"}
    panels = []
    for name in there(found, found.conditions):
        counts, body = of(found, "parameters", name), []
        for label in found.labels(name):
            spec = next(u for u in found.specs if u.condition == name and u.variant == label)
            row = msgspec.convert(spec.settings["row"], rows.PointsRow)
            told = scheme_text({"scheme": row.scheme, "options": row.options})
            trained = sorted({round(value) for value in counts.get(label, {}).values()})
            cells = (told, row.view, carried[row.features])
            body.append((label, *cells, " to ".join(f"{n:,}" for n in trained) or "not run"))
        columns = ("Row", "Scheme", "Unit of positions", "What tokens carry", "Trained numbers")
        panels.append(Panel(f"The rows: {name}", (Table("What each row is", columns, tuple(body), prose=True),)))
    return panels or empty("The rows")


def size(seeds: BySeed) -> str:
    """A mean accuracy with its interval, for a sentence."""
    found = t_interval(list(seeds.values()))
    return f"{number(found.mean, 3)}{NO_BREAK}{interval(found, 3, within=(0.0, 1.0))}"
