"""Scale selection, claims and time to equal PSNR of the image study."""

from __future__ import annotations

from collections import Counter

import pytest

from posenc.workbench.report.claims_table import judge_claim
from posenc.workbench.storage.store import Store
from posenc.workbench.studies import Request
from posenc.workbench.studies.image_fit import (
    claims,
    execute,
    held_out_plots,
    presets,
    size_plots,
    time_to_psnr,
    variants,
)
from posenc.workbench.studies.image_fit.scale_selection import select_scales
from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import Budget
from posenc.workbench.studies.shared.page_data import PageData
from posenc.workbench.training.loop import EVALUATION_FRACTIONS


def rows_of(table, setting="main"):
    return [
        {"setting": setting, "scheme": label, "seed": seed, "metric": "psnr", "value": value + seed / 10}
        for label, value in table.items()
        for seed in range(3)
    ]


def test_the_time_to_a_psnr_is_interpolated():
    curve = {1.0: 10.0, 2.0: 20.0, 8.0: 30.0}
    assert time_to_psnr.first_crossing(curve, 20.0) == pytest.approx(2.0)
    assert time_to_psnr.first_crossing(curve, 25.0) == pytest.approx(4.0)
    assert time_to_psnr.first_crossing(curve, 9.0) == 1.0
    assert time_to_psnr.first_crossing(curve, 31.0) == float("inf")


def test_sigma_is_chosen_on_some_photographs_and_reported_on_others():
    def at(picture: str, **reached: float) -> list[dict]:
        return rows_of({name.replace("_", "-"): value for name, value in reached.items()}, f"{picture} held-out")

    on = at("astronaut", gaussian_5=24.0, gaussian_10=22.0, posenc_16=20.0, posenc_32=21.0)
    on += at("coffee", gaussian_5=20.0, gaussian_10=21.0, posenc_16=20.0, posenc_32=21.0)
    others = at("moon", gaussian_5=20.0, gaussian_10=30.0, posenc_16=23.0, posenc_32=25.0)
    others += at("page", gaussian_5=21.0, gaussian_10=30.0)
    chosen = select_scales(on + others)
    assert chosen.label("gaussian") == "gaussian-5"  # though 10 is better on those that are reported
    assert chosen.label("posenc") == "posenc-32"
    assert chosen.label("basic") == "basic"
    assert "gaussian-10" in chosen.rejected
    wider = select_scales([*at("astronaut", gaussian_50=40.0), *at("coffee", gaussian_50=40.0), *on, *others])
    assert wider.label("gaussian") == "gaussian-5"
    assert (
        "In the whole sweep gaussian-50 has a higher mean, 40.10 dB against 22.10 dB, but it was not run on"
        in wider.sentences
    )
    assert chosen.selected_on == ("astronaut held-out", "coffee held-out")
    assert chosen.reported == ("moon held-out", "page held-out")
    assert (
        "gaussian-5: the best scale of 5 and 10 by the mean PSNR on held-out pixels of astronaut and coffee"
        in chosen.sentences
    )
    assert select_scales(on).label("gaussian") == variants.PUBLISHED_SIGMA  # nothing is left to report on
    assert select_scales(on).reported == chosen.selected_on
    one_alone = select_scales(at("astronaut", gaussian_5=24.0) + others)
    assert (one_alone.label("gaussian"), one_alone.selected_on) == (variants.PUBLISHED_SIGMA, ())
    assert select_scales(others).reported == chosen.reported
    order = next(claim for claim in claims.CLAIMS if claim.name.startswith("PSNR is highest with Gaussian"))
    judged = judge_claim(order, on + others)
    assert "not measured" in judged.verdict
    first = next(reading for reading in judged.measurements if reading.quantity.name.startswith("gaussian - posenc"))
    assert first.estimate is not None
    assert first.estimate.mean == pytest.approx(20.0 - 25.0)


def data_of(table, tmp_path) -> PageData:
    """Data of a page with these rows."""
    settings = {"training": {"batch": 8, "epochs": 9}}
    specs = [
        execute.TRAIN.spec(study="image-fit", preset="quick", condition=each, variant="none", seed=0, settings=settings)
        for each in dict.fromkeys(row["setting"] for row in table)
    ]
    data = PageData(
        request=Request(preset="quick"), preset=presets.PRESETS["quick"], store=Store(tmp_path / "runs"), specs=specs
    )
    vars(data).update(rows=table, done=specs)
    return data


def test_rows_asked_for_by_name_are_shown_among_the_pixels_held_out(tmp_path):
    def at(**reached: float) -> list[dict]:
        table = {name.replace("_", "-"): value for name, value in reached.items()}
        return [row for picture in ("moon", "page") for row in rows_of(table, f"{picture} held-out")]

    (panel,) = held_out_plots.held_out(data_of(at(one_blob=21.0, gaussian_10=24.0, gaussian_20=20.0), tmp_path))
    assert [row[0] for row in panel.blocks[0].rows] == ["gaussian-10", "one-blob"]
    (panel,) = held_out_plots.held_out(data_of(at(posenc_8=21.0), tmp_path))
    assert [row[0] for row in panel.blocks[0].rows] == ["posenc-8"]  # not chosen, and all there is
    parted = rows_of({"none": 20.0}, "moon held-out") + rows_of({"basic": 20.0}, "page held-out")
    (panel,) = held_out_plots.held_out(data_of(parted, tmp_path))
    assert "No run in this condition has finished." in panel.blocks[0].paragraphs[0]


@pytest.mark.parametrize("sigmas", [1, 2])
def test_the_best_of_one_sigma_is_not_reported(sigmas, tmp_path):
    table = rows_of({"gaussian-1": 20.0, "gaussian-2": 21.0} if sigmas == 2 else {"gaussian-1": 20.0}, "moon held-out")
    (panel,) = held_out_plots.sigma(data_of(table, tmp_path))
    captions = [block.caption for block in panel.blocks if hasattr(block, "caption")]
    assert ("Best sigma by image" in captions) == (sigmas == 2)


def test_the_speed_up_is_judged_by_its_median_over_images():
    claim = next(claim for claim in claims.CLAIMS if "needs less time" in claim.name)

    def fitted(picture: str, after: float) -> list[dict]:
        """The grid reaches the final PSNR of the other network after a part of the time."""
        table = {
            part: {"multires": 30.0 if part >= after else 10.0, "none": 10.0 + 10 * part}
            for part in EVALUATION_FRACTIONS
        }
        return [{**row, "metric": f"psnr@{part:g}"} for part, each in table.items() for row in rows_of(each, picture)]

    def judged(parts: list[float]):
        judged = judge_claim(claim, [row for n, part in enumerate(parts) for row in fitted(f"image {n}", part)])
        return judged.verdict, judged.measurements[0].estimate

    verdict, estimate = judged([0.05] * 6)
    assert verdict == "supported"
    assert estimate.n == 6
    assert estimate.mean > 20  # between the evaluations at 0.02 and 0.05
    assert judged([0.05] * 5)[0] == "inconclusive"  # five images give no interval of 95%
    assert judged([0.05] * 5 + [2.0])[0] == "inconclusive"
    verdict, estimate = judged([2.0] * 6)
    assert (verdict, estimate.mean) == ("contradicted", 0.0)  # never reached: censored


def test_vertices_that_share_an_entry_are_counted_on_the_hash_itself():
    level = field_variants.field_variant("hash", Budget(2, 3, 15_000, 16)).field().scheme.levels[0]
    table = [[(x * 1 ^ y * 2654435761 % 2**32) % level.rows for y in range(17)] for x in range(17)]
    counts = Counter(row for line in table for row in line)
    assert size_plots.count_entries(level) == (len(counts), sum(n == 1 for n in counts.values()))
    dense = field_variants.field_variant("dense", Budget(2, 3, 15_000, 16)).field().scheme.levels[0]
    assert size_plots.count_entries(dense) == (17**2, 17**2)


def test_claims_follow_the_numbers():
    grids, faster, mends, invariant, order = claims.CLAIMS
    assert judge_claim(faster, rows_of({"multires": 30.0})).verdict == "not measured"
    near = rows_of({"multires": 30.0, "hash": 25.0, "dense": 26.0, "gaussian-10": 22.0})
    assert judge_claim(grids, near).verdict == "not measured"
    held = rows_of({"multires": 20.0, "hash": 25.0, "dense": 25.0, "gaussian-10": 22.0}, "main held-out")
    assert judge_claim(grids, near + held).verdict == "contradicted"
    moved = rows_of({"gaussian-10": 22.01, "none": 10.0}, "main shifted")
    plain = rows_of({"none": 15.0})
    judged = judge_claim(invariant, near + moved + plain)
    assert judged.verdict == "supported"
    assert judged.measurements[0].estimate is not None
    assert judged.measurements[0].estimate.level == 0.9  # an equivalence is two one-sided tests
    assert judge_claim(mends, near).verdict == judge_claim(order, near).verdict == "not measured"
