"""The answer of the scene study, its predictions, and published claims on encodings of radiance fields."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.measure.statistics import mean
from posenc.workbench.report.claims_table import Claim, Quantity
from posenc.workbench.report.estimators import PairedDifference, PairedValues, difference, difference_across_conditions
from posenc.workbench.report.number_format import number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import BySeed, Row, values_by_scheme
from posenc.workbench.studies.scene.conditions import (
    NO_DIRECTIONS,
    NO_HIGHLIGHTS,
    NO_HIGHLIGHTS_OR_DIRECTIONS,
    TORUS,
    UNCHANGED,
    SceneCondition,
    condition,
)
from posenc.workbench.studies.scene.variants import FOURIER, SMALL
from posenc.workbench.studies.shared.best_variant import best_variant, no_answer
from posenc.workbench.studies.shared.page_data import PageData

NOTES = "seed note 002 on positional encodings"
ON_OBJECT, WHOLE_VIEWS = "psnr_mask", "psnr"
SCORE_NAMES = {ON_OBJECT: "PSNR on the object", WHOLE_VIEWS: "PSNR of whole views"}
PREDICTED = (
    ("multires", FOURIER), ("dense", FOURIER), ("hash", FOURIER), ("multires", FOURIER + SMALL),
    ("multires", "dense"), (FOURIER, "none"), (FOURIER + SMALL, "none" + SMALL),
)  # fmt: skip
"""(better, worse): predicted before the run."""


def compared_scenes(rows: Sequence[Row]) -> list[str]:
    """Scenes on which the encodings are compared; the torus only if it is the only one."""
    unchanged = [each.scene for each in (condition(str(row["setting"])) for row in rows) if not each.ending]
    names = list(dict.fromkeys(unchanged))
    return [name for name in names if name != TORUS] or names


def main_metric(rows: Sequence[Row], scene: str) -> str:
    """PSNR on the object if its mask is known, otherwise PSNR of whole views."""
    return ON_OBJECT if values_by_scheme(rows, ON_OBJECT, scene) else WHOLE_VIEWS


def headline(data: PageData) -> str:
    """The best encoding of each scene, against the second, and the Fourier features."""
    sentences = []
    for scene in compared_scenes(data.rows):
        metric = main_metric(data.rows, scene)
        scores = values_by_scheme(data.rows, metric, scene)
        where = f"on held-out views of {'the ' if scene == TORUS else ''}{scene} {data.budget(scene)}".rstrip()
        sentence = best_variant(scores, metric=SCORE_NAMES[metric], unit="dB", where=where)
        if sentence and FOURIER in scores and len(scores) > 1:
            sentence += f" Fourier features ({FOURIER}): {number(mean(list(scores[FOURIER].values())))} dB."
        sentences += [sentence] if sentence else []
    return " ".join(sentences) or no_answer(bool(data.rows))


def predictions(data: PageData) -> Sequence[Prediction]:
    """Predictions that grids are above Fourier features, and these above bare coordinates, on every compared scene."""
    predicted = []
    for scene in compared_scenes(data.rows):
        metric, trained = main_metric(data.rows, scene), set(data.labels(scene))
        predicted += [
            Prediction(metric, better, worse, conditions=(scene,), unit="dB", metric_name=SCORE_NAMES[metric])
            for better, worse in PREDICTED
            if {better, worse} <= trained
        ]
    return predicted


def encoding_difference(a: str, b: str) -> PairedDifference:
    """PSNR on the object, a − b: over seeds of the only compared scene, or over several scenes."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        names = compared_scenes(rows)
        if len(names) == 1:
            return difference(ON_OBJECT, a, b, names[0]).sides(rows)
        return difference_across_conditions(ON_OBJECT, a, b, names).sides(rows)

    return PairedDifference(sides, "pair")


def direction_gain(label: str) -> PairedDifference:
    """PSNR on the object with view directions minus PSNR without them."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        stored = {row["setting"] for row in rows}
        names = [name for name in compared_scenes(rows) if NO_DIRECTIONS.for_scene(name).label in stored]
        if not names:
            return None
        return difference(ON_OBJECT, label, label, names[0], NO_DIRECTIONS.for_scene(names[0]).label).sides(rows)

    return PairedDifference(sides, "pair")


def highlight_effect(label: str) -> PairedDifference:
    """The gain from view directions on a scene with highlights, minus the gain without highlights."""

    def sides(rows: Sequence[Row]) -> PairedValues | None:
        for name in compared_scenes(rows):
            shiny = _gain(rows, label, name, UNCHANGED, NO_DIRECTIONS)
            matte = _gain(rows, label, name, NO_HIGHLIGHTS, NO_HIGHLIGHTS_OR_DIRECTIONS)
            if shiny.keys() & matte.keys():
                return shiny, matte
        return None

    return PairedDifference(sides, "pair")


def _gain(rows: Sequence[Row], label: str, scene: str, a: SceneCondition, b: SceneCondition) -> BySeed:
    pair = difference(ON_OBJECT, label, label, a.for_scene(scene).label, b.for_scene(scene).label).sides(rows)
    return {seed: pair[0][seed] - pair[1][seed] for seed in pair[0].keys() & pair[1].keys()} if pair else {}


def _difference(a: str, b: str) -> Quantity:
    return Quantity(f"{a} − {b}, PSNR on the object (dB)", encoding_difference(a, b), low=0.0)


def _grid_claim(name: str, label: str) -> Claim:
    """The claim of the note on one of the three grid encodings."""
    return Claim(
        name=f"{name} suit 3-D reconstruction from many views",
        source=NOTES,
        quote="Hash / Densegrid / Multi-Resolution Encoding 适用于多视角还原3D图",
        english="Hash, dense grid and multi-resolution encodings suit 3-D reconstruction from many views",
        lang="zh-Hans",
        about=f"After the same training time and with a matched parameter count, {name} have a higher PSNR on held-out "
        "views than Fourier features.",
        quantities=(_difference(label, FOURIER),),
        control="A wide network takes few steps in that time. The grid must also have a higher PSNR than Fourier "
        "features with a network as small and as fast as its own.",
        controls=(_difference(label, FOURIER + SMALL),),
        panel="encodings",
        command="posenc run scene",
    )


CLAIMS = (
    _grid_claim("multi-resolution hash grids", "multires"),
    _grid_claim("dense grids", "dense"),
    _grid_claim("single hashed levels", "hash"),
    Claim(
        name="without a positional encoding, views stay blurred",
        source="arXiv 2006.10739, Table 1, 3D NeRF; numbers as printed in the authors' notebook",
        quote="none 22.405, basic 23.157, posenc 25.598, gaussian 25.475",
        about="Fourier features have a higher PSNR than bare coordinates with a matched parameter count.",
        published="PSNR: none 22.41, basic 23.16, positional 25.60, Gaussian 25.48 (dB)",
        quantities=(_difference(FOURIER, "none"),),
        control="A small network takes several times as many steps in that time. Fourier features must have a higher "
        "PSNR there too.",
        controls=(_difference(FOURIER + SMALL, "none" + SMALL),),
        panel="encodings",
        command="posenc run scene",
    ),
    Claim(
        name="color depends on the view direction",
        source="arXiv 2003.08934, abstract",
        quote="whose output is the volume density and view-dependent emitted radiance at that spatial location",
        about="With spherical harmonics of the view direction as an input, the PSNR on held-out views is higher: the "
        "scene has highlights that change with the view direction.",
        quantities=(
            Quantity(
                "multires with − without directions, PSNR on the object (dB)", direction_gain("multires"), low=0.0
            ),
        ),
        control="More inputs may raise the PSNR by themselves. On the same solid without highlights, where the color "
        "does not depend on the direction, directions must raise it less.",
        controls=(
            Quantity(
                "gain from directions with − without highlights, PSNR on the object (dB)",
                highlight_effect("multires"),
                low=0.0,
            ),
        ),
        panel="directions",
        command="posenc run scene --panels encodings directions",
    ),
)
