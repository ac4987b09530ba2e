"""The grid-cell study as panels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posenc.measure.statistics import mean, t_interval
from posenc.report.lines import lines
from posenc.report.page import Panel, Table
from posenc.report.rows import BySeed, interval, number
from posenc.report.scores import Score, scores
from posenc.store import Unit
from posenc.studies.classified_panels import (
    TOP,
    accuracies,
    convergence,
    empty,
    named,
    of,
    pictures_of,
    scheme_text,
    there,
    what_rows_are,
)
from posenc.studies.found import Found, plain_label
from posenc.studies.gridpe import published, rows
from posenc.studies.gridpe.presets import BLOCK, OF_PHOTOGRAPHS, PHOTOGRAPHS, PVT, PVT_PHOTOGRAPHS, SCALES

TITLES = {"main": "", PHOTOGRAPHS: ", photographs", PVT: "", PVT_PHOTOGRAPHS: ", photographs"}
KINDS = {"main": ": ViT", PHOTOGRAPHS: ": ViT, photographs", PVT: ": PVT", PVT_PHOTOGRAPHS: ": PVT, photographs"}
OF_VIT, OF_PVT = ("main", PHOTOGRAPHS), (PVT, PVT_PHOTOGRAPHS)
BY_LAYER = ("learned", "nope", "sinusoid", "rope-axial", "gridpe", "grid-deep")
DISTANCE = "patches"


def accuracy(found: Found) -> list[Panel]:
    """Table 1 of the paper, its ViTs, clean."""
    panels = []
    for setting in there(found, OF_VIT):
        labels = _clean(found, setting)
        panels.append(_accuracies(found, labels, setting, f"Accuracy of a ViT by encoding{TITLES[setting]}"))
        panels.append(_losses(found, labels, setting, f"Loss of a ViT by encoding{TITLES[setting]}"))
    return [*(panels or empty("Accuracy of a ViT by encoding")), _printed(found)]


def literal(found: Found) -> list[Panel]:
    """The same as released, beside the paper's equations."""
    caption = (
        "As released: waves drawn anew at every call and for queries and keys apart, tokens counted along one line, no "
        "norm before attention. The optimiser is that of the other rows."
    )
    panels = [
        accuracies(found, rows.BOTH, name, f"As released{TITLES[name]}", caption) for name in there(found, OF_VIT)
    ]
    return panels or empty("As released")


def pyramid(found: Found) -> list[Panel]:
    """Table 1, its PVTs."""
    panels = []
    for setting in there(found, OF_PVT):
        labels = found.labels(setting)
        panels.append(_accuracies(found, labels, setting, f"Accuracy of a PVT by encoding{TITLES[setting]}"))
        panels.append(_losses(found, labels, setting, f"Loss of a PVT by encoding{TITLES[setting]}"))
    return panels or empty("Accuracy of a PVT by encoding")


def curves(found: Found) -> list[Panel]:
    """Fig. 4 of the paper."""
    panels = []
    for setting in there(found, (*OF_VIT, *OF_PVT)):
        labels = _clean(found, setting)
        panels.append(convergence(found, labels, setting, f"How they converge{KINDS[setting]}"))
    return panels or empty("How they converge")


def _clean(found: Found, setting: str) -> list[str]:
    """What was run of a setting, less what has a panel of its own."""
    apart = (*rows.LITERAL, *rows.OF_HEADS) if BLOCK[setting] == "vit" else ()
    return [label for label in found.labels(setting) if label not in apart]


def resolution(found: Found) -> list[Panel]:
    """The third version's table: pictures of other sizes than those learned from."""
    panels = []
    for setting in there(found, OF_VIT):
        metrics = {1.0: "accuracy", **{scale: f"accuracy_at_{name}" for name, scale in SCALES.items()}}
        by_scale = {scale: of(found, metrics[scale], setting) for scale in sorted(metrics)}
        series: dict[str, dict[float, BySeed]] = {
            label: {round(scale, 2): seeds[label] for scale, seeds in by_scale.items() if label in seeds}
            for label in rows.RESIZED
        }
        series = {label: points for label, points in series.items() if len(points) > 1}
        title = f"Pictures of other sizes{TITLES[setting]}"
        panel = lines(
            series,
            title=title,
            x_label="size, as a multiple of the trained one",
            y_label="accuracy on held-out pictures",
            chance=1 / pictures_of(found, setting).classes,
            note="A table is interpolated to the new grid; the others move by their positions alone.",
        )
        panels.append(Panel(title, (*panel.blocks, _by_side(series)), panel.caption))
    return panels or empty("Pictures of other sizes")


def _by_side(series: dict[str, dict[float, BySeed]]) -> Table:
    """Which part of the accuracy at the trained size is kept, beside the paper's."""
    scales = sorted({round(side / published.TRAINED, 2) for side in published.SIDES})
    body = []
    for label, told in published.BY_SIDE.items():
        trained = told[published.SIDES.index(published.TRAINED)]
        body.append((f"{label}, published", *(f"{value / trained:.2f}" for value in told)))
        points = series.get(label, {})
        base = mean(list(points[1.0].values())) if 1.0 in points else 0.0
        parts = [f"{mean(list(points[s].values())) / base:.2f}" if base and s in points else "–" for s in scales]
        body.append((f"{label}, here", *parts))
    note = (
        "Accuracy as a part of that at the trained size, by the size of the pictures as a multiple of it (here as near "
        f"as patches allow). Published: {published.THIRD}."
    )
    return Table("Which part is kept", ("Encoding", *(f"{scale:g}" for scale in scales)), tuple(body), note)


def heads(found: Found) -> list[Panel]:
    """The heads of the model, one to eight."""
    panels = []
    for setting in there(found, OF_VIT):
        by_label = of(found, "accuracy", setting)
        series = {
            base: {float(n): by_label[f"{base}, {n} heads"] for n in rows.HEADS if f"{base}, {n} heads" in by_label}
            for base in ("learned", "gridpe")
        }
        best = max(published.BY_HEADS, key=lambda n: published.BY_HEADS[n])
        panels.append(
            lines(
                series,
                title=f"Heads{TITLES[setting]}",
                x_label="heads, at one width of the model",
                y_label="accuracy on held-out pictures",
                bounds=None,
                log_x=True,
                note=f"Published of GridPE ({published.THIRD}): most with {best} heads of 1 to 64.",
            )
        )
    return panels or empty("Heads")


def reach(found: Found) -> list[Panel]:
    """How far attention looks, and how widely."""
    metrics = {
        "attention_distance": Score("Mean distance of attention", DISTANCE, higher=None),
        "attention_entropy": Score("Entropy of attention", "bits", higher=None),
    }
    caption = "Of 64 held-out pictures, mean over layers and heads; the class token's queries are left out."
    panels = []
    for setting in there(found, OF_VIT):
        title, shown = f"How far attention looks{TITLES[setting]}", named(found.rows, setting, _clean(found, setting))
        panels.append(scores(shown, metrics=metrics, setting=setting, title=title, caption=caption))
        panels.append(
            lines(
                {label: points for label in BY_LAYER if (points := _by_layer(found, setting, label))},
                title=f"How far attention looks, layer by layer{TITLES[setting]}",
                x_label="layer",
                y_label=f"mean distance in {DISTANCE}",
                bounds=None,
            )
        )
    return panels or empty("How far attention looks")


def _by_layer(found: Found, setting: str, label: str) -> dict[float, BySeed]:
    by_layer: dict[float, BySeed] = {}
    for unit in found.done:
        if unit.setting == setting and plain_label(unit) == label:
            for layer, of_heads in enumerate(found.store.arrays(unit.key)["distance"], 1):
                by_layer.setdefault(float(layer), {})[unit.seed] = float(np.mean(of_heads))
    return by_layer


def what(found: Found) -> list[Panel]:
    """What each row is."""

    def told(unit: Unit) -> str:
        row = unit.settings["row"]
        tables = "; a learned table" if row["config"]["options"]["tables"] else ""
        return f"{scheme_text(row['scheme'])}{', first block of a stage' if row['first_only'] else ''}{tables}"

    return what_rows_are(found, KINDS, lambda setting, label: rows.kind(BLOCK[setting], label).about, told)


def headline(found: Found) -> str:
    """The best row of each block, and what no encoding reaches."""
    told = []
    for setting in there(found, (*OF_VIT, *OF_PVT)):
        by_label, clean = of(found, "accuracy", setting), _clean(found, setting)
        means = {label: mean(list(seeds.values())) for label, seeds in by_label.items() if label in clean}
        if not means:
            continue
        best = max(means, key=lambda label: (means[label], label))
        kind = "ViT" if setting in OF_VIT else "PVT"
        others = [name for name in ("learned", "pvt-o", "nope") if name in means and name != best]
        rest = ", ".join(f"{name} {number(means[name], 3)}" for name in others)
        told.append(f"{kind}{TITLES[setting]}: {best} {number(means[best], 3)}{'; ' + rest if rest else ''}.")
    return (
        f"Accuracy on held-out pictures. {' '.join(told)}" if told else "Nothing can be said yet: no unit has finished."
    )


def _printed(found: Found) -> Panel:
    """The paper's table beside what was run here, with its spread."""
    here = {setting: of(found, "accuracy", setting) for setting in ("main", PVT)}
    body = []
    for (setting, label), (top1, top5, loss) in published.TABLE_1.items():
        cells = []
        for name in (label, f"{label}-literal"):
            seeds = here[setting].get(name)
            told = t_interval(list(seeds.values())) if seeds else None
            cells.append(f"{number(told.mean, 3)} {interval(told, 3)}" if told else "not run")
        block = "PVT" if setting == PVT else "ViT"
        body.append((f"{label}, {block}", *cells, f"{top1:.1f}", f"{top5:.1f}", f"{loss:g}"))
    columns = ("Row", "Accuracy here", "as released", "Published top-1", "top-5", "loss")
    note = (
        f"Published: {published.SOURCE}. Its ViTs and PVTs were trained by different recipes, and its loss is probably "
        "that of training: compare within a block. Other pictures and models here: compare the order."
    )
    return Panel("Beside the published table", (Table("Table 1", columns, tuple(body), note),))


def _accuracies(found: Found, labels: Sequence[str], setting: str, title: str, caption: str = "") -> Panel:
    """By class too where classes may have unlike many pictures."""
    balanced = setting not in OF_PHOTOGRAPHS and found.request.source is None
    metrics = ("accuracy", TOP, "accuracy_train" if balanced else "accuracy_per_class")
    return accuracies(found, labels, setting, title, caption, metrics)


def _losses(found: Found, labels: Sequence[str], setting: str, title: str) -> Panel:
    loss = {"loss": Score("Loss on held-out pictures", "nats", higher=False)}
    return scores(named(found.rows, setting, labels), metrics=loss, setting=setting, title=title)
