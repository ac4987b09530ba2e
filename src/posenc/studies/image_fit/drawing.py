"""The panels of the image study."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np

from posenc.kernels.levels import lay_out
from posenc.measure.statistics import mean, t_interval
from posenc.report.lines import Points, lines
from posenc.report.page import Panel, Table, Text
from posenc.report.pixels import album
from posenc.report.rows import interval, number, values
from posenc.report.scores import Score, scores
from posenc.studies.found import Found, plain_label
from posenc.studies.image_fit import rows
from posenc.studies.image_fit.choosing import GAUSSIAN, HELD, Choice, choose
from posenc.studies.image_fit.presets import SHIFT, SHIFTED, SUFFIX, SWEEP, kind_of

PSNR = "psnr"
SCORE = Score("PSNR", "dB")
STEPS = Score("Steps in the same time", "steps")


def of_kind(found: Found, kind: str) -> list[str]:
    """The settings of a kind of panel that have units."""
    return [name for name in found.settings if kind_of(name) == kind]


def fit(found: Found) -> list[Panel]:
    panels = []
    for setting in of_kind(found, "fit"):
        about = "" if setting == "main" else f": {setting}"
        near = scores(
            found.rows,
            metrics={PSNR: SCORE, "steps": STEPS},
            setting=setting,
            title=f"How near{about}",
            caption="Every encoding has about as many parameters and the same seconds of one core; all pixels are "
            "learned and all are asked. Grids take many cheap steps, networks of waves few dear ones.",
        )
        panels += [
            dataclasses.replace(near, blocks=(*near.blocks, sizes_of(found, setting))),
            lines(
                _compared(found, found.over_time(setting, PSNR)),
                title=f"Sharper with time{about}",
                x_label="seconds of training",
                y_label="PSNR in dB, on a grid of pixels",
                bounds=None,
                log_x=True,
            ),
            pictures_of(found, setting, f"The picture from each encoding{about}"),
            film(found, setting, f"While it trains{about}"),
            spectrum(found, setting, f"What is still missing, by frequency{about}"),
        ]
    return [*panels, sooner(found, of_kind(found, "fit"))]


def sizes_of(found: Found, setting: str) -> Table:
    """How large each field is, and how its numbers are spent."""
    body = []
    for label in reached(found, setting):
        unit = found.first(setting, label)
        if unit is None:
            continue
        row, size = unit.settings["row"], found.store.read(unit.key).metrics["parameters"]
        network = f"{row['network']['depth']} x {row['network']['width']}"
        options = {name: value for name, value in row["options"].items() if name != "resolutions"}
        told = ", ".join(f"{name}={value}" for name, value in options.items())
        body.append((label, f"{size:,.0f}", f"{row['scheme']}({told})", network))
    return Table("Parameters", ("Encoding", "Numbers trained", "Scheme", "Hidden layers"), tuple(body), folded=True)


def reached(found: Found, setting: str) -> dict[str, float]:
    held = values(found.rows, PSNR, setting)
    means = {name.removesuffix(f", {setting}"): mean(list(seeds.values())) for name, seeds in held.items()}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def sooner(found: Found, settings: Sequence[str]) -> Panel:
    """How much sooner many levels reach what the best network of waves has in the end.

    Of the Gaussian features only those with the chosen sigma are rivals, where they were fitted.
    """
    title, body, ratios = "How much sooner", [], []
    choice = choose(found.rows)
    for setting in settings:
        series, last = _compared(found, found.over_time(setting, PSNR)), reached(found, setting)
        waves = [label for label in last if label in series and not _is_grid(found, setting, label)]
        if "multires" not in series or not waves:
            continue
        rival = waves[0]
        limit = max(series[rival])
        target = mean(list(series[rival][limit].values()))
        took = _crossing({x: mean(list(seeds.values())) for x, seeds in series["multires"].items()}, target)
        ratios.append(limit / took)
        told = "not reached" if math.isinf(took) else f"{took:.3g} s"
        ratio = "censored, below 1" if math.isinf(took) else f"{limit / took:.3g} x"
        body.append((setting, rival, f"{number(target)} dB after {limit:g} s", told, ratio))
    if not body:
        return Panel(title, (Text(("Needs multires and a network of waves, both limited in time.",)),))
    note = f"Median of {len(ratios)}: {median(ratios):.3g} x. {choice.words}"
    return Panel(
        title,
        (Table("Time to the same PSNR", ("Picture", "Best of the waves", "It reaches", "multires took", "Sooner by"),
               tuple(body), note),),
        "Means over seeds, on the grid of pixels that is looked at while training; between two looks the logarithm of "
        "the time is interpolated.",
    )  # fmt: skip


def _compared(found: Found, by_label: Mapping[str, Points]) -> dict[str, Points]:
    """What is compared in one picture: of the Gaussian features those with the chosen sigma, where they were fitted."""
    chosen = choose(found.rows).label(GAUSSIAN)
    kept = next((label for label in (chosen, rows.AUTHORS) if label in by_label), "")
    return {label: one for label, one in by_label.items() if not kept or label == kept or label not in rows.OF_SIGMA}


def _is_grid(found: Found, setting: str, label: str) -> bool:
    unit = found.first(setting, label)
    return unit is not None and unit.settings["row"]["scheme"].endswith("Grid")


def _crossing(points: Mapping[float, float], target: float) -> float:
    """When a curve first reaches the target; infinite where it does not."""
    before: tuple[float, float] | None = None
    for x, value in sorted(points.items()):
        if value >= target:
            if before is None or value == before[1]:
                return x
            part = (target - before[1]) / (value - before[1])
            return math.exp(math.log(before[0]) + part * (math.log(x) - math.log(before[0])))
        before = (x, value)
    return math.inf


def pictures_of(found: Found, setting: str, title: str) -> Panel:
    shown: dict[str, np.ndarray] = {}
    notes: dict[str, str] = {}
    for label, decibels in reached(found, setting).items():
        arrays = found.arrays(setting, label)
        shown[label], notes[label] = _three(arrays["picture"]), f"{number(decibels)} dB"
        shown[f"{label}, error x 4"] = arrays["error"][..., 0]
        notes[f"{label}, error x 4"] = "black is none"
    key = "What each encoding makes of the picture, lowest seed, and four times its mean absolute error."
    return Panel(title, (album(shown, key=key, notes=notes, photographs=True, largest=320),))


def film(found: Found, setting: str, title: str) -> Panel:
    strips, notes = {}, {}
    for label in reached(found, setting):
        frames = found.arrays(setting, label)["film"]
        keep = np.linspace(0, len(frames) - 1, min(6, len(frames))).round().astype(int)
        strips[label] = np.concatenate([_three(frames[i]) for i in keep], 1)
        notes[label] = "from the first weights to the last"
    return Panel(
        title,
        (
            album(
                strips,
                key="A coarse grid of pixels, each time it was measured.",
                notes=notes,
                largest=800,
                size="wide",
                photographs=True,
            ),
        ),
    )


def spectrum(found: Found, setting: str, title: str) -> Panel:
    series: dict[str, Points] = {}
    for label in reached(found, setting):
        series[label] = _bands(found, setting, label, "error_power")
    return lines(
        _compared(found, {label: points for label, points in series.items() if points}),
        title=title,
        x_label="cycles across the picture",
        y_label="power of the error, dB of the picture's",
        bounds=None,
        log_x=True,
        note="0 dB: nothing of that frequency is there yet.",
    )


def _bands(found: Found, setting: str, label: str, name: str) -> Points:
    """Octave bands -> seed -> power relative to the picture's, in decibels."""
    points: dict[float, dict[int, float]] = {}
    for unit in found.done:
        if unit.setting != setting or plain_label(unit) != label:
            continue
        arrays = found.store.arrays(unit.key)
        if name not in arrays:
            continue
        octave = np.floor(np.log2(arrays["cycles"])).astype(int)
        for band in np.unique(octave):
            inside = octave == band
            ratio = arrays[name][inside].sum() / max(arrays["truth_power"][inside].sum(), 1e-12)
            points.setdefault(float(2**band), {})[unit.seed] = 10 * np.log10(max(ratio, 1e-12))
    return points


PUBLISHED = {"none": 19.323, "basic": 21.716, "posenc": 24.947, rows.AUTHORS: 25.568}
"""Natural images of 512 x 512, as printed in the notebook of the authors of arXiv 2006.10739."""


def held_out(found: Found) -> list[Panel]:
    choice, panels = choose(found.rows), []
    shown = [choice.label(GAUSSIAN) if label == rows.AUTHORS else label for label in rows.MAPPINGS]
    if len(choice.reported) > 1:
        panels.append(Panel("Held out", (_over_pictures(found, choice, shown),), choice.words))
    for setting in choice.reported:
        panels.append(
            scores(
                [row for row in found.rows if _plain(row["scheme"], setting) in shown],
                metrics={PSNR: Score("PSNR on pixels not learned", "dB")},
                setting=setting,
                title=f"Held out: {setting.removesuffix(HELD)}",
                caption="Even pixels are learned, a quarter of them a step, odd ones asked, as in arXiv 2006.10739; "
                "the grid is one for which nobody publishes this.",
            )
        )
    return panels


def _over_pictures(found: Found, choice: Choice, shown: Sequence[str]) -> Table:
    """The mean over the pictures that are reported on, beside what was published of others."""
    body = []
    for label in shown:
        means = {setting.removesuffix(HELD): reached(found, setting)[label] for setting in choice.reported
                 if label in reached(found, setting)}  # fmt: skip
        if not means:
            continue
        estimate = t_interval(list(means.values()))
        published = PUBLISHED.get(rows.AUTHORS if label == choice.label(GAUSSIAN) else label)
        each = ", ".join(f"{name} {number(value)}" for name, value in means.items())
        told = "–" if published is None else number(published)
        body.append((label, number(estimate.mean), interval(estimate), each, told))
    return Table(
        "PSNR in dB on pixels not learned, mean over pictures",
        ("Encoding", "Mean", "95% interval over pictures", "Each picture, mean over seeds", "Published of others"),
        tuple(body),
        note="Published: arXiv 2006.10739, natural images of 512 x 512 and networks trained twice as long, so that "
        "only the order can be compared.",
    )


def shifted(found: Found) -> list[Panel]:
    panels = []
    for setting in of_kind(found, SHIFTED):
        plain = setting.removesuffix(SUFFIX[SHIFTED])
        labels, shown = found.labels(setting), []
        for row in found.rows:
            label = _plain(row["scheme"], row["setting"])
            if row["setting"] in (setting, plain) and label in labels:
                moved = f"{label}, moved" if row["setting"] == setting else label
                shown.append({**row, "scheme": moved, "setting": "main"})
        panels.append(
            scores(
                shown,
                metrics={PSNR: SCORE},
                title=f"Moved by {SHIFT:g} pictures" + ("" if plain == "main" else f": {plain}"),
                caption="Every place moved by as many pictures along both axes. The inner products of Fourier features "
                "do not change by it; a grid stands where it stands and cannot be asked elsewhere.",
            )
        )
    return panels


def _plain(scheme: str, setting: str) -> str:
    return scheme.removesuffix(f", {setting}")


def sigma(found: Found) -> list[Panel]:
    series: dict[str, dict[float, dict[int, float]]] = {}
    for setting in of_kind(found, "held"):
        for name, seeds in values(found.rows, PSNR, setting).items():
            if _plain(name, setting) in rows.OF_SIGMA:
                points = series.setdefault(setting.removesuffix(HELD), {})
                points[rows.OF_SIGMA[_plain(name, setting)]] = seeds
    panel = lines(series, title="How fast the features should turn", x_label="sigma, cycles across the picture",
                  y_label="PSNR on pixels not learned, dB", bounds=None, log_x=True,
                  caption="Gaussian features: too slow cannot follow the picture, too fast learns noise.")  # fmt: skip
    best = [(name, f"{_best(points):g}") for name, points in series.items()]
    table = Table("The best sigma of each picture", ("Picture", "Best sigma"), tuple(best), choose(found.rows).words)
    return [Panel(panel.title, (*panel.blocks, table), panel.caption) if best else panel]


def _best(points: Points) -> float:
    return max(points, key=lambda x: mean(list(points[x].values())))


def sizes(found: Found) -> list[Panel]:
    panels = []
    for setting in of_kind(found, SWEEP):
        series: dict[str, dict[float, dict[int, float]]] = {}
        counted = values(found.rows, "parameters", setting)
        for name, seeds in values(found.rows, PSNR, setting).items():
            label, at, _ = _plain(name, setting).partition("@")
            if at:
                size = mean(list(counted[name].values()))
                series.setdefault(label, {})[size] = seeds
        panels.append(
            lines(
                series,
                title=f"Parameters: {setting.removesuffix(f' {SWEEP}')}",
                x_label="parameters",
                y_label="PSNR in dB",
                bounds=None,
                log_x=True,
                caption="Where a dense grid of one level, a hashed one and many levels cross.",
            )
        )
        panels.append(Panel("Collisions", (collisions(found, setting),)))
    return panels


def collisions(found: Found, setting: str) -> Table:
    """Of each hash table: how many vertices share a row, on its finest level."""
    body = []
    for label in found.labels(setting):
        unit = found.first(setting, label)
        if unit is None or "table_size" not in unit.settings["row"]["options"]:
            continue
        options = unit.settings["row"]["options"]
        size, finest = options["table_size"], options.get("resolution") or options["resolutions"][-1]
        shared = (finest + 1) ** 2 / size
        hashed = _hashed(options)
        body.append((label, f"{size:,}", f"{finest}", hashed, number(shared, 2)))
    return Table(
        "Vertices that share a row", ("Encoding", "Rows of a table", "Finest cells", "Hashed levels", "Vertices a row"),
        tuple(body), note="Vertices of the finest level for each row of its table; below 1 nothing need be hashed.",
    )  # fmt: skip


def _hashed(options: Mapping[str, object]) -> str:
    if "resolutions" not in options:
        return "1 of 1"
    resolutions: Sequence[int] = options["resolutions"]  # pyright: ignore[reportAssignmentType]
    size = int(options["table_size"])  # pyright: ignore[reportArgumentType]
    levels = lay_out(resolutions, 2, table_size=size, convention="paper", periodic=(False, False))
    return f"{sum(level.hashed for level in levels)} of {len(levels)}"


def parameters(found: Found) -> list[Panel]:
    return []


def interpolation(found: Found) -> list[Panel]:
    return [
        scores(
            [row for row in found.rows if _plain(row["scheme"], setting) in rows.INTERPOLATIONS],
            metrics={PSNR: SCORE, "steps": STEPS},
            setting=setting,
            title=f"Between the vertices: {setting.removesuffix(f' {SWEEP}')}",
            caption="The same levels and rows, read at the nearest vertex, linearly, or smoothly (which has second "
            "derivatives).",
        )
        for setting in of_kind(found, SWEEP)
    ]


def _three(pixels: np.ndarray) -> np.ndarray:
    """One, three or four numbers a pixel, as a page shows them; an alpha beside grey is left out."""
    return pixels[..., :1] if pixels.shape[-1] == 2 else pixels
