"""The answer of the globe study, and the predictions made before its first run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from posenc.measure.statistics import Estimate, mean, paired_difference
from posenc.workbench.report.number_format import interval, join_words, signed_number
from posenc.workbench.report.preregistered import Prediction
from posenc.workbench.report.result_rows import BySeed, values_by_scheme
from posenc.workbench.studies.globe.conditions import CONDITIONS, FIELD, GlobeCondition
from posenc.workbench.studies.globe.variants import PLANAR, SPHERICAL
from posenc.workbench.studies.shared.best_variant import best_variant
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.tables.metric_bounds import metric_bounds

COUNTERPARTS = (
    ("xyz", "none"),
    ("fourier-xyz", "fourier"),
    ("hash-xyz", "hash"),
    ("sphere-c-plus", "space2vec-grid"),
    ("harmonics", "fourier"),
)
"""(spherical, planar): the first was predicted to err less at the poles and across the date line."""
REGIONS = {"_poles": "within 10° of a pole", "_date_line": "within 5° of the date line"}
"""Suffix of a stored metric, with the region that it names."""
NO_RASTER = (
    "Land and countries were not run: they need Natural Earth (--data DIR with geo/natural_earth_110m_raster.npz)."
)


def conditions_of(data: PageData) -> list[GlobeCondition]:
    """The conditions of a page, in the order of its panels."""
    return [each for label, each in CONDITIONS.items() if label in data.conditions]


def scores_of(data: PageData, condition: GlobeCondition, metric: str) -> dict[str, BySeed]:
    """Variant to seed to the value of a metric in a condition."""
    return values_by_scheme(data.rows, metric, condition.label)


def predictions(data: PageData) -> list[Prediction]:
    """Predictions that spherical encodings are better than planar ones in both regions.

    For land and countries they compare harmonics with fourier alone.
    """
    predicted = []
    for each in conditions_of(data):
        pairs = COUNTERPARTS if each is FIELD else (("harmonics", "fourier"),)
        regions = REGIONS if each.everywhere else {"": "over all its places"}
        for better, worse in pairs:
            predicted += [_prediction(each, region, words, better, worse) for region, words in regions.items()]
        if each is FIELD:
            predicted.append(_prediction(each, "_date_line", REGIONS["_date_line"], "hash-wrap", "hash"))
            predicted += [
                Prediction(
                    "jump_date_line",
                    better,
                    worse,
                    False,
                    (each.label,),
                    unit=each.unit,
                    metric_name="jump across the date line",
                )
                for better, worse in COUNTERPARTS
            ]
    return predicted


def _prediction(condition: GlobeCondition, region: str, words: str, better: str, worse: str) -> Prediction:
    return Prediction(
        f"{condition.metric}{region}",
        better,
        worse,
        condition.higher,
        (condition.label,),
        unit=condition.unit,
        metric_name=f"{condition.score} {words}",
    )


class RegionGap(NamedTuple):
    """RMSE of the best planar encoding minus RMSE of the best spherical encoding, in a region."""

    words: str
    planar: str
    spherical: str
    gap: Estimate


def headline(data: PageData) -> str:
    """The answer, by the best planar and the best spherical encoding; then the best encoding of each target."""
    if not data.rows:
        return "No answer yet: no run has finished."
    best = []
    for each in conditions_of(data):
        scores = scores_of(data, each, each.metric)
        if scores:
            where = f"for {each.phrase}"
            quantity = {"metric": each.score, "unit": each.unit, "bounds": metric_bounds(each.metric)}
            best.append(best_variant(scores, **quantity, where=where, higher=each.higher, digits=3))
    absent = [] if any(each.raster for each in conditions_of(data)) else [NO_RASTER]
    return " ".join([answer(data), *best, *absent])


def answer(data: PageData) -> str:
    """Answer of the study: the RMSE gap between planar and spherical encodings in both regions, random field."""
    gaps = [gap for region, words in REGIONS.items() if (gap := _gap(data, region, words)) is not None]
    if not gaps:
        return "No answer yet: this needs a planar and a spherical encoding of the random field with a common seed."
    above, below = [each for each in gaps if each.gap.above(0)], [each for each in gaps if each.gap.below(0)]
    if above and len(above) < len(gaps):
        word = f"Only {join_words([each.words for each in above])}"
    else:
        word = "Yes" if above else "No" if len(below) == len(gaps) else "Inconclusive"
    sizes = [f"{each.words} {_size(each.gap)} ({each.planar} − {each.spherical})" for each in gaps]
    compared = "RMSE of the best planar encoding minus RMSE of the best spherical encoding, on random fields"
    return f"{word}. {compared}: {'; '.join(sizes)}."


def _size(gap: Estimate) -> str:
    return f"{signed_number(gap.mean, 3)} SD {interval(gap, 3)}"


def _gap(data: PageData, region: str, words: str) -> RegionGap | None:
    scores = scores_of(data, FIELD, f"{FIELD.metric}{region}")
    planar, spherical = (_best_of(scores, side) for side in (PLANAR, SPHERICAL))
    if planar is None or spherical is None or not scores[planar].keys() & scores[spherical].keys():
        return None
    gap = paired_difference(scores[planar], scores[spherical], bounds=metric_bounds(FIELD.metric))
    return RegionGap(words, planar, spherical, gap)


def _best_of(scores: dict[str, BySeed], variants: Sequence[str]) -> str | None:
    means = {name: mean(list(scores[name].values())) for name in variants if name in scores}
    return min(means, key=lambda name: (means[name], name), default=None)
