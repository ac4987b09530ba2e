"""The panels of the scene study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from posenc.measure.statistics import mean
from posenc.report.lines import MOST_IN_ONE_PICTURE, Points, lines
from posenc.report.page import Panel, Picture, Pictures, Table, Text
from posenc.report.pixels import album, embedded, error_map
from posenc.report.rows import listed, number, values
from posenc.report.scores import Score, scores
from posenc.studies.beforehand import standing
from posenc.studies.found import Found
from posenc.studies.scene import rows, turning, work
from posenc.studies.scene.presets import BLIND, IMPORTANT, MATTE, MATTE_BLIND, NERF, OTHER, SPOT, UNCELLED, parted
from posenc.tasks.scenes import Scene

INSIDE, WHOLE, ALIKE = "psnr_mask", "psnr", "ssim"
SCORES = {
    INSIDE: Score("PSNR on the object", "dB"),
    WHOLE: Score("PSNR of whole views", "dB"),
    ALIKE: Score("Structural similarity", "of 1", bounds=(None, 1.0)),
    "steps": Score("Steps in the same time", "steps"),
}


class Bar(NamedTuple):
    """What multires reached: steps that were taken and PSNR on the object, means over seeds, and in which run."""

    steps: float
    level: float
    run: str = "this run"


BARS = {
    ("quick", SPOT): (
        Bar(1899, 28.77, "the first full run at this scale"),
        Bar(987, 28.11, "earlier code with one seed, on a machine that takes half as many steps in that time"),
    )
}
"""None of them is of the run that results/ keeps, which they judge. Commit 67e4639 was run again for the second."""
SLACK, FEWER = 0.5, 0.9
"""Decibels below a bar that a run may stay, and the part of its steps that a run must take to be judged by it."""
SHOWN = 3
"""Held-out views that a page shows."""
WORST = 0.25
"""Mean absolute error that is white on an error map."""


def subjects(found: Found) -> list[str]:
    """The scenes whose encodings were compared; the one that sigma is chosen on only where it is the only one."""
    plain = [name for name in found.settings if not parted(name)[1]]
    return [name for name in plain if name != OTHER] or plain


def _title(found: Found, text: str, setting: str) -> str:
    """Of a panel: which scene it is about, where there are several."""
    return text if len(subjects(found)) == 1 else f"{text}: {setting}"


def headline_metric(found: Found, setting: str) -> str:
    """On the object, where somebody knows where it is."""
    return INSIDE if values(found.rows, INSIDE, setting) else WHOLE


def reached(found: Found, setting: str) -> dict[str, float]:
    """Rows by their mean score, the best first."""
    by_row = values(found.rows, headline_metric(found, setting), setting)
    means = {name.removesuffix(f", {setting}"): mean(list(seeds.values())) for name, seeds in by_row.items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def encodings(found: Found) -> list[Panel]:
    panels = []
    for setting in subjects(found):
        if not reached(found, setting):
            panels.append(Panel(_title(found, "How near", setting), (Text(("No unit of this scene has finished.",)),)))
            continue
        panels += [
            near(found, setting),
            lines(
                compared(found, setting),
                title=_title(found, "Sharper with time", setting),
                x_label="seconds of training on one core",
                y_label="PSNR in dB",
                bounds=None,
                log_x=True,
                note="Asked of some rays of every held-out view, on the object where it is known."
                + _left_out(found, setting),
            ),
            *pictures_of(found, setting),
        ]
    return panels


def compared(found: Found, setting: str) -> dict[str, Points]:
    """Curves that one picture can hold: of the rows that are compared over time, then of the best."""
    order = reached(found, setting)
    chosen = sorted(order, key=lambda label: label not in rows.COMPARED)[:MOST_IN_ONE_PICTURE]
    over_time = found.over_time(setting, headline_metric(found, setting))
    return {label: over_time[label] for label in order if label in chosen and label in over_time}


def _left_out(found: Found, setting: str) -> str:
    others = [label for label in reached(found, setting) if label not in compared(found, setting)]
    return f" In the panel above alone: {listed(others)}." if others else ""


def now(found: Found, setting: str) -> Bar | None:
    """What multires reached here; None before it has finished."""
    level = reached(found, setting).get("multires")
    steps = values(found.rows, "steps", setting).get(f"multires, {setting}")
    return Bar(mean(list(steps.values())), level) if steps and level is not None else None


def bar_of(found: Found, setting: str) -> Bar | None:
    """Of the bars whose steps were taken here too, the one of the most; None where there is none."""
    here = now(found, setting)
    bars = BARS.get((found.request.preset, setting), ())
    return max((bar for bar in bars if here and here.steps >= FEWER * bar.steps), default=None)


def bar(found: Found, setting: str) -> str:
    """Whether what earlier code reached in as many steps is reached again."""
    bars, here = BARS.get((found.request.preset, setting)), now(found, setting)
    if not bars or here is None:
        return ""
    mark = bar_of(found, setting)
    if mark is None:
        held = "not judged, none took so few steps"
    else:
        held = "held" if here.level >= mark.level - SLACK else f"not held: more than {SLACK:g} dB less"
    told = "; ".join(f"{one.run}, {number(one.level)} dB after {one.steps:,.0f} steps" for one in (*bars, here))
    return f" Multires on the object: {told}: {held}."


def near(found: Found, setting: str) -> Panel:
    known = [row for row in found.rows if row["setting"] == setting]
    mark = bar_of(found, setting)
    panel = scores(
        known,
        metrics=SCORES
        if headline_metric(found, setting) == INSIDE
        else {k: v for k, v in SCORES.items() if k != INSIDE},
        setting=setting,
        lines={INSIDE: {"multires before": mark.level}} if mark else None,
        title=_title(found, "How near", setting),
        caption="Every encoding has about as many parameters (but those called small) and the same seconds of one "
        "core. Scored on every pixel of views from where no picture was taken for training. What instant-ngp calls a "
        f"hash encoding is multires here; hash is its finest level alone.{bar(found, setting)}",
    )
    return Panel(panel.title, (*panel.blocks, parameters(found, setting)), panel.caption)


def parameters(found: Found, setting: str) -> Table:
    """How large each field is, how its numbers are spent, and how far it came."""
    body = []
    for label in reached(found, setting):
        unit = found.first(setting, label)
        if unit is None:
            continue
        row, metrics = unit.settings["row"], found.store.read(unit.key).metrics
        network = f"{row['network']['depth']} x {row['network']['width']}"
        options = ", ".join(f"{name}={_short(value)}" for name, value in row["options"].items())
        body.append((label, f"{metrics['parameters']:,.0f}", f"{row['scheme']}({options})", network,
                     f"{metrics['steps']:,.0f}"))  # fmt: skip
    columns = ("Encoding", "Numbers trained", "Scheme", "Hidden layers", "Steps, lowest seed")
    return Table("Parameters", columns, tuple(body), folded=True)


def _short(value: object) -> str:
    return f"{value[0]} .. {value[-1]}" if isinstance(value, Sequence) and not isinstance(value, str) else str(value)


def pictures_of(found: Found, setting: str) -> list[Panel]:
    """Held-out views, their errors and depths, and the turning picture of the best row."""
    order = reached(found, setting)
    first = found.first(setting, next(iter(order)))
    assert first is not None, "a row with a score has a finished unit"
    scene = work.kept(found.store.root, first.settings["scene"])
    chosen = [round(n * (len(scene.held) - 1) / (SHOWN - 1)) for n in range(min(SHOWN, len(scene.held)))]
    truth = scene.held.take(chosen)
    true = truth_of(scene)[chosen]
    known = [] if truth.mask is None else [_row(np.repeat(truth.mask[..., None].float().numpy(), 3, -1))]
    shown, notes = {"truth": np.vstack([_row(true), *known])}, {"truth": ", ".join(truth.names)}
    depths: dict[str, np.ndarray] = {}
    for label, decibels in order.items():
        arrays = found.arrays(setting, label)
        made = arrays["views"][chosen].astype(np.float32) / 255
        wrong = np.concatenate(list(np.abs(made - true).mean(-1)), 1)
        shown[label], notes[label] = np.vstack([_row(made), error_map(wrong, WORST)]), f"{number(decibels)} dB"
        depths[label] = _row(_depth(arrays["depth"][chosen], arrays["opacity"][chosen]))
    key = (
        "Views held out, lowest seed of each encoding: what was there, and below it where the object is, if anybody "
        "knows; what came out, and below it how far off that "
        f"is, from black for nothing to white for {WORST:g} in the mean of the colours."
    )
    views = album(shown, key=key, notes=notes, size="wide", photographs=True)
    deep = album(depths, key="How far the field thinks the surface is: near is bright, black is nothing. Nobody told "
                 "it.", size="wide")  # fmt: skip
    return [
        Panel(_title(found, "Views that were held out", setting), (views,)),
        Panel(_title(found, "Depth", setting), (deep,)),
        turntable(found, setting, next(iter(order)), scene),
    ]


def truth_of(scene: Scene) -> np.ndarray:
    """The held-out pictures ``(V, H, W, 3)`` in [0, 1], over white."""
    pixels = scene.held.pictures.numpy().astype(np.float32) / 255
    return pixels if pixels.shape[-1] == 3 else pixels[..., :3] * pixels[..., 3:] + (1 - pixels[..., 3:])


def turntable(found: Found, setting: str, label: str, scene: Scene) -> Panel:
    """The best row's scene from all around, as a moving picture on the page and a larger one beside it."""
    title = _title(found, "From all around", setting)
    unit = found.first(setting, label)
    assert unit is not None, "a row with a score has a finished unit"
    frames = turning.kept(found.store, unit, scene)
    beside = found.beside(f"{setting}-turntable.png")
    try:
        turning.write(beside, frames)
        small = turning.gif(frames)
    except ValueError as error:
        return Panel(title, (Text((str(error),)),))
    picture = Picture(
        embedded(small, turning.SIDE, turning.SIDE, "gif"), label, f"The scene as {label} learned it, turning once."
    )
    rowed = Table("The numbers", ("Frames", "A turn"), ((str(len(frames)), "from as far and as high as the cameras"),))
    return Panel(
        title, (Pictures((picture,), f"With every frame and colour, beside this page: {beside.name}.", rowed, "small"),)
    )


def directions(found: Found) -> list[Panel]:
    return _variants(
        found,
        {"": "with directions", BLIND: "without", MATTE: "matte, with", MATTE_BLIND: "matte, without"},
        "Spherical harmonics of the direction",
        "With them a colour may change with the side that it is seen from, as a highlight does; without, every place "
        "has one colour. On the same solid rendered matte nothing changes with the side, and what directions bring "
        "there they bring otherwise; it is another scene, so that only differences compare. The encoding is multires.",
    )


def samples(found: Found) -> list[Panel]:
    return _variants(
        found,
        {"": "occupied cells", UNCELLED: "everywhere", IMPORTANT: "importance + cells", NERF: "importance alone"},
        "Where along a ray the field is asked",
        "As many sections of each ray and as many seconds of training; views are rendered the same way. The encoding "
        "is multires, on the other panels asked in the cells where something was found. Importance: half of the "
        "sections are even, and a first pass through the same field, which takes time too, says where the others lie; "
        "arXiv 2003.08934 has a second network for that, and no cells. A step has as many rays as bring about the same "
        "number of places, so that asking at fewer places of a ray is learning from more rays.",
    )


def _variants(found: Found, names: Mapping[str, str], title: str, caption: str) -> list[Panel]:
    """multires in the variants of a setting, by what they are called here."""
    panels = []
    for setting in subjects(found):
        told = []
        for row in found.rows:
            for variant, name in names.items():
                where = setting + variant
                if row["setting"] == where and row["scheme"].removesuffix(f", {where}") == "multires":
                    told.append({**row, "scheme": name, "setting": "main"})
        shown = {name: SCORES[name] for name in (INSIDE, WHOLE, "steps")}
        panels.append(scores(told, metrics=shown, title=_title(found, title, setting), caption=caption))
    return panels


def sigma(found: Found) -> list[Panel]:
    metric = headline_metric(found, OTHER)
    points: dict[float, dict[int, float]] = {}
    for name, seeds in values(found.rows, metric, OTHER).items():
        label = name.removesuffix(f", {OTHER}")
        if label in rows.OF_SIGMA:
            points[rows.OF_SIGMA[label]] = dict(seeds)
    return [
        lines(
            {"gaussian": points},
            title="How fast the features should turn",
            x_label="sigma, cycles a side of the cube",
            y_label="PSNR on the object, dB",
            bounds=None,
            log_x=True,
            caption=f"Gaussian features on the other solid, the {OTHER}. The comparison has {rows.FOURIER}, chosen "
            f"among a few at the quick scale{standing(points, rows.OF_SIGMA[rows.FOURIER], higher=True)}.",
        )
    ]


def _row(pictures: np.ndarray) -> np.ndarray:
    """Pictures ``(V, H, W, 3)`` side by side."""
    return np.concatenate(list(pictures), 1)


def _depth(depth: np.ndarray, opacity: np.ndarray) -> np.ndarray:
    """Depths as grey, near is bright; black where less than half of the ray ends."""
    solid, far = opacity >= 128, depth.astype(np.float32)
    low, high = (float(far[solid].min()), float(far[solid].max())) if solid.any() else (0.0, 1.0)
    grey = np.where(solid, 1 - 0.8 * (far - low) / max(high - low, 1e-6), 0)
    return np.repeat(grey[..., None], 3, -1)
