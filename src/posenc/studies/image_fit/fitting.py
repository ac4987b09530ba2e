"""Panels of fits to every pixel: how near, how soon, and what it looks like."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from statistics import median

import numpy as np

from posenc.report.lines import Points, lines
from posenc.report.page import Panel, Table, Text
from posenc.report.pixels import album, smaller
from posenc.report.rows import number
from posenc.report.scores import Score, scores
from posenc.studies.found import Found, plain_label
from posenc.studies.image_fit.choosing import choose
from posenc.studies.image_fit.comparing import PSNR, compared, of_kind, over_pictures, reached
from posenc.studies.image_fit.sooner import AIM, QUICK, crossings
from posenc.training.loop import MOMENTS

SCORE = Score("PSNR", "dB")
STEPS = Score("Steps in the same time", "steps")
STRIP = 96
"""Pixels a side of a picture in a strip, and of a frame where there are several photographs."""


def fit(found: Found) -> list[Panel]:
    """The first picture in full; of the others a table, and how sharp they came out."""
    settings = of_kind(found, "fit")
    if not settings:
        return []
    first, *others = settings
    which = "" if first == "main" else f" The photograph is {first}."
    near = scores(
        found.rows,
        metrics={PSNR: SCORE, "steps": STEPS},
        setting=first,
        title="How near",
        caption="Every encoding has about as many parameters and the same seconds of one core; all pixels are learned, "
        f"and asked. Grids take many cheap steps, networks of waves few dear ones.{which}",
    )
    return [
        dataclasses.replace(near, blocks=(*near.blocks, spent(found, first))),
        *([each_photograph(found, settings)] if others else []),
        lines(
            compared(found, found.over_time(first, PSNR)),
            title="Sharper with time",
            x_label="seconds of training",
            y_label="PSNR in dB, on a grid of pixels",
            bounds=None,
            log_x=True,
            caption=which.strip(),
        ),
        sooner(found),
        pictures_of(found, first, alone=not others),
        film(found, first, alone=not others),
        spectrum(found, first),
    ]


def spent(found: Found, setting: str) -> Table:
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


def each_photograph(found: Found, settings: Sequence[str]) -> Panel:
    settings = [setting for setting in settings if reached(found, setting)]
    table = over_pictures(found, settings, "PSNR in dB, mean over photographs")
    order = [row[0] for row in table.rows]
    strips = {}
    for setting in settings[1:]:
        shown = compared(found, {label: found.arrays(setting, label) for label in order})
        parts = [smaller(_three(arrays["picture"]), STRIP) for arrays in shown.values() if arrays]
        if parts:
            strips[setting] = np.concatenate(parts, 1)
    key = f"Lowest seed, from left to right: {', '.join(compared(found, dict.fromkeys(order, None)))}."
    blocks = (table, album(strips, key=key, largest=800, size="wide", photographs=True)) if strips else (table,)
    return Panel("Every photograph", blocks, "The panels below show the first photograph in full.")


def sooner(found: Found) -> Panel:
    """How much sooner many levels reach what the best network of waves has in the end."""
    title, body, choice = "How much sooner", [], choose(found.rows)
    met = crossings(found.rows)
    if not met:
        return Panel(title, (Text((f"Needs {QUICK} and a network of waves, both limited in time.",)),))
    for setting, each in met.items():
        unit = found.first(setting, QUICK)
        limit = unit.settings["training"]["seconds"] if unit else 0.0
        told = ("not reached", "censored, below 1")
        if each.sooner:
            told = (f"{each.part * limit:.3g} s", f"{each.sooner:.3g} x")
        if each.part == MOMENTS[0]:  # it may have been there before anybody looked
            told = (f"at most {told[0]}", f"at least {told[1]}")
        body.append((setting, each.rival, f"{number(each.reaches)} dB after {limit:g} s", *told))
    middle = median(each.sooner for each in met.values())
    verdict = f"at least {AIM:g} x was aimed for: {'met' if middle >= AIM else 'not met'}"
    table = Table(
        "Time to the same PSNR",
        ("Picture", "Best of the waves", "It reaches", f"{QUICK} took", "Sooner by"),
        tuple(body),
        f"Median of {len(met)}: {middle:.3g} x; {verdict}. {choice.words}",
    )
    return Panel(
        title,
        (table,),
        "Means over seeds, on the grid of pixels that is looked at while training; between two looks the logarithm of "
        "the time is interpolated. Scales that were not chosen are no rivals.",
    )


def pictures_of(found: Found, setting: str, alone: bool) -> Panel:
    shown: dict[str, np.ndarray] = {}
    notes: dict[str, str] = {}
    for label, decibels in compared(found, reached(found, setting)).items():
        arrays = found.arrays(setting, label)
        wrong = arrays["error"][..., 0]
        shown[label], notes[label] = _three(arrays["picture"]), f"{number(decibels)} dB"
        shown[f"{label}, error x 4"] = wrong if alone else smaller(wrong, max(wrong.shape) // 2)
        notes[f"{label}, error x 4"] = "black is none"
    key = "What each encoding makes of the picture, lowest seed, and four times its mean absolute error."
    pictures = album(shown, key=key, notes=notes, photographs=True, largest=320)
    return Panel("The picture from each encoding", (pictures,))


def film(found: Found, setting: str, alone: bool) -> Panel:
    strips, notes = {}, {}
    for label in compared(found, reached(found, setting)):
        frames = found.arrays(setting, label)["film"]
        keep = np.linspace(0, len(frames) - 1, min(6, len(frames))).round().astype(int)
        shown = [_three(frames[i]) for i in keep]
        strips[label] = np.concatenate(shown if alone else [smaller(frame, STRIP) for frame in shown], 1)
        notes[label] = "from the first weights to the last"
    pictures = album(
        strips,
        key="A coarse grid of pixels, each time it was measured.",
        notes=notes,
        largest=800,
        size="wide",
        photographs=True,
    )
    return Panel("While it trains", (pictures,))


def spectrum(found: Found, setting: str) -> Panel:
    series = {label: _bands(found, setting, label) for label in found.labels(setting)}
    return lines(
        compared(found, {label: points for label, points in series.items() if points}),
        title="What is still missing, by frequency",
        x_label="cycles across the picture",
        y_label="power of the error, dB of the picture's",
        bounds=None,
        log_x=True,
        note="0 dB: nothing of that frequency is there yet.",
    )


def _bands(found: Found, setting: str, label: str) -> Points:
    """Octave bands -> seed -> power of the error relative to the picture's, in decibels."""
    points: dict[float, dict[int, float]] = {}
    for unit in found.done:
        if unit.setting != setting or plain_label(unit) != label:
            continue
        arrays = found.store.arrays(unit.key)
        if "error_power" not in arrays:
            continue
        octave = np.floor(np.log2(arrays["cycles"])).astype(int)
        for band in np.unique(octave):
            inside = octave == band
            ratio = arrays["error_power"][inside].sum() / max(arrays["truth_power"][inside].sum(), 1e-12)
            points.setdefault(float(2**band), {})[unit.seed] = 10 * np.log10(max(ratio, 1e-12))
    return points


def _three(pixels: np.ndarray) -> np.ndarray:
    """One, three or four numbers a pixel, as a page shows them; an alpha beside grey is left out."""
    return pixels[..., :1] if pixels.shape[-1] == 2 else pixels
