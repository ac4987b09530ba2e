"""What is chosen and judged from the numbers of the image study: scales, claims, how much sooner."""

from __future__ import annotations

from collections import Counter

import pytest

from posenc.report.ledger import judge_claim
from posenc.store import Store, Unit
from posenc.studies import Request, field_rows
from posenc.studies.field_rows import Budget
from posenc.studies.found import Found
from posenc.studies.image_fit import choosing, claims, held_out, presets, rows, sizing, sooner
from posenc.training.loop import MOMENTS


def rows_of(table, setting="main"):
    end = "" if setting == "main" else f", {setting}"
    return [
        {"setting": setting, "scheme": label + end, "seed": seed, "metric": "psnr", "value": value + seed / 10}
        for label, value in table.items()
        for seed in range(3)
    ]


def test_the_time_to_a_height_is_interpolated():
    curve = {1.0: 10.0, 2.0: 20.0, 8.0: 30.0}
    assert sooner.crossing(curve, 20.0) == pytest.approx(2.0)
    assert sooner.crossing(curve, 25.0) == pytest.approx(4.0)
    assert sooner.crossing(curve, 9.0) == 1.0
    assert sooner.crossing(curve, 31.0) == float("inf")


def test_sigma_is_chosen_on_some_photographs_and_reported_on_others():
    def at(picture: str, **reached: float) -> list[dict]:
        return rows_of({name.replace("_", "-"): value for name, value in reached.items()}, f"{picture} held-out")

    on = at("astronaut", gaussian_5=24.0, gaussian_10=22.0, posenc_16=20.0, posenc_32=21.0)
    on += at("coffee", gaussian_5=20.0, gaussian_10=21.0, posenc_16=20.0, posenc_32=21.0)
    others = at("moon", gaussian_5=20.0, gaussian_10=30.0, posenc_16=23.0, posenc_32=25.0)
    others += at("page", gaussian_5=21.0, gaussian_10=30.0)
    chosen = choosing.choose(on + others)
    assert chosen.label("gaussian") == "gaussian-5"  # though 10 is better on those that are reported
    assert chosen.label("posenc") == "posenc-32"
    assert chosen.label("basic") == "basic"
    assert "gaussian-10" in chosen.rejected
    wider = choosing.choose([*at("astronaut", gaussian_50=40.0), *at("coffee", gaussian_50=40.0), *on, *others])
    assert wider.label("gaussian") == "gaussian-5"
    assert "Of the whole sweep gaussian-50 is better there, 40.10 dB to 22.10, but was not run on" in wider.words
    assert chosen.on == ("astronaut held-out", "coffee held-out")
    assert chosen.reported == ("moon held-out", "page held-out")
    assert "gaussian-5: the best of 5 and 10 on pixels not learned, in the mean of astronaut and coffee" in chosen.words
    assert choosing.choose(on).label("gaussian") == rows.AUTHORS  # nothing is left to report on
    assert choosing.choose(on).reported == chosen.on
    one_alone = choosing.choose(at("astronaut", gaussian_5=24.0) + others)
    assert (one_alone.label("gaussian"), one_alone.on) == (rows.AUTHORS, ())
    assert choosing.choose(others).reported == chosen.reported
    order = next(claim for claim in claims.CLAIMS if claim.name.startswith("Gaussian above"))
    found = judge_claim(order, on + others)
    assert "not measured" in found.verdict
    first = next(reading for reading in found.readings if reading.quantity.says.startswith("gaussian - posenc"))
    assert first.estimate is not None
    assert first.estimate.mean == pytest.approx(20.0 - 25.0)


def found_of(table, tmp_path) -> Found:
    """What is drawn from these rows alone."""
    said = {"training": {"batch": 8, "epochs": 9}}
    units = [
        Unit(study="image-fit", preset="quick", setting=each, scheme="none", seed=0, work="a:b", settings=said)
        for each in dict.fromkeys(row["setting"] for row in table)
    ]
    found = Found(Request(preset="quick"), presets.PRESETS["quick"], Store(tmp_path / "runs"), units)
    vars(found).update(rows=table, done=units)
    return found


def test_rows_asked_for_by_name_are_shown_among_the_pixels_held_out(tmp_path):
    def at(**reached: float) -> list[dict]:
        table = {name.replace("_", "-"): value for name, value in reached.items()}
        return [row for picture in ("moon", "page") for row in rows_of(table, f"{picture} held-out")]

    (panel,) = held_out.held_out(found_of(at(one_blob=21.0, gaussian_10=24.0, gaussian_20=20.0), tmp_path))
    assert [row[0] for row in panel.blocks[0].rows] == ["gaussian-10", "one-blob"]
    (panel,) = held_out.held_out(found_of(at(posenc_8=21.0), tmp_path))
    assert [row[0] for row in panel.blocks[0].rows] == ["posenc-8"]  # not chosen, and all there is
    parted = rows_of({"none": 20.0}, "moon held-out") + rows_of({"basic": 20.0}, "page held-out")
    (panel,) = held_out.held_out(found_of(parted, tmp_path))
    assert "No unit of this setting has finished." in panel.blocks[0].paragraphs[0]


@pytest.mark.parametrize("sigmas", [1, 2])
def test_the_best_of_one_sigma_is_not_told(sigmas, tmp_path):
    table = rows_of({"gaussian-1": 20.0, "gaussian-2": 21.0} if sigmas == 2 else {"gaussian-1": 20.0}, "moon held-out")
    (panel,) = held_out.sigma(found_of(table, tmp_path))
    told = [block.caption for block in panel.blocks if hasattr(block, "caption")]
    assert ("The best sigma of each picture" in told) == (sigmas == 2)


def test_five_times_sooner_is_judged_by_the_median_over_pictures():
    claim = next(claim for claim in claims.CLAIMS if claim.panel == "How much sooner")

    def fitted(picture: str, after: float) -> list[dict]:
        """The grid is there after a part of the time; the waves in the end."""
        table = {part: {"multires": 30.0 if part >= after else 10.0, "none": 10.0 + 10 * part} for part in MOMENTS}
        return [{**row, "metric": f"psnr@{part:g}"} for part, each in table.items() for row in rows_of(each, picture)]

    def judged(parts: list[float]):
        found = judge_claim(claim, [row for n, part in enumerate(parts) for row in fitted(f"picture {n}", part)])
        return found.verdict, found.readings[0].estimate

    verdict, estimate = judged([0.05] * 6)
    assert verdict == "upheld"
    assert estimate.n == 6
    assert estimate.mean > 20  # between the looks at 0.02 and 0.05
    assert judged([0.05] * 5)[0] == "cannot be told"  # five pictures are no interval of 95%
    assert judged([0.05] * 5 + [2.0])[0] == "cannot be told"
    verdict, estimate = judged([2.0] * 6)
    assert (verdict, estimate.mean) == ("not upheld", 0.0)  # never as near: censored


def test_vertices_that_share_a_row_are_counted_on_the_hash_itself():
    level = field_rows.row("hash", Budget(2, 3, 15_000, 16)).field().scheme.levels[0]
    table = [[(x * 1 ^ y * 2654435761 % 2**32) % level.rows for y in range(17)] for x in range(17)]
    counts = Counter(row for line in table for row in line)
    assert sizing.vertices_a_row(level) == (len(counts), sum(n == 1 for n in counts.values()))
    dense = field_rows.row("dense", Budget(2, 3, 15_000, 16)).field().scheme.levels[0]
    assert sizing.vertices_a_row(dense) == (17**2, 17**2)


def test_claims_follow_the_numbers():
    grids, faster, mends, invariant, order = claims.CLAIMS
    assert judge_claim(faster, rows_of({"multires": 30.0})).verdict == "not measured"
    near = rows_of({"multires": 30.0, "hash": 25.0, "dense": 26.0, "gaussian-10": 22.0})
    assert judge_claim(grids, near).verdict == "not measured"
    held = rows_of({"multires": 20.0, "hash": 25.0, "dense": 25.0, "gaussian-10": 22.0}, "main held-out")
    assert judge_claim(grids, near + held).verdict == "not upheld"
    moved = rows_of({"gaussian-10": 22.01, "none": 10.0}, "main shifted")
    plain = rows_of({"none": 15.0})
    found = judge_claim(invariant, near + moved + plain)
    assert found.verdict == "upheld"
    assert found.readings[0].estimate is not None
    assert found.readings[0].estimate.level == 0.9  # an equivalence is two one-sided tests
    assert judge_claim(mends, near).verdict == judge_claim(order, near).verdict == "not measured"
