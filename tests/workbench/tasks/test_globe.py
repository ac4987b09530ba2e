"""The globe: the raster and what is read off it, the random field, places drawn by area, and the scores."""

import doctest
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import sph_harm_y

from posenc.workbench.tasks import globe
from posenc.workbench.tasks.globe import DATE_LINE, ELSEWHERE, Labels, Raster, raster


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A folder of data with an Earth of one continent: country 7 north of the equator from 0 to 90 east, 8 south."""
    land, country = np.zeros((360, 720), np.uint8), np.zeros((360, 720), np.int16)
    land[60:300, 360:540] = 255
    land[100, 100] = 127  # not quite half
    country[60:180, 360:540], country[180:300, 360:540] = 7, 8
    (tmp_path / "geo").mkdir()
    np.savez(tmp_path / globe.FILE, land=land, country_iso=country)
    return tmp_path


def test_the_worked_example() -> None:
    result = doctest.testmod(globe)
    assert (result.failed, result.attempted > 5) == (0, True)


# the raster ----------------------------------------------------------------------------------------------------------


def test_places_find_their_raster_cell() -> None:
    lon = torch.tensor([-180.0, 179.9, 180.0, 0.0, 2.3], dtype=torch.float64)
    lat = torch.tensor([90.0, -90.0, 0.0, 0.2, 48.8], dtype=torch.float64)
    row, column = globe.cell_index(lon, lat)
    assert row.tolist() == [0, 359, 180, 179, 82]
    assert column.tolist() == [0, 719, 0, 360, 364]


def test_row_areas_are_those_of_the_sphere() -> None:
    areas = globe.cell_areas()
    assert float(areas.sum()) * 720 == pytest.approx(1)
    assert float(areas[:60].sum()) * 720 == pytest.approx((1 - math.sin(math.radians(60))) / 2)


def test_a_raster_is_read_and_mended_at_the_south_pole(made: Path) -> None:
    found = globe.read_raster(made / globe.FILE)
    assert bool(found.land[349:].all())
    assert bool((found.country[349:] == 10).all())
    assert found.land[300:349].sum() == 0
    assert not found.land[100, 100]
    assert globe.land_labels(found).names == ("sea", "land")
    lon, lat = torch.tensor([45.0, -45.0], dtype=torch.float64), torch.tensor([10.0, 10.0], dtype=torch.float64)
    assert globe.land_labels(found).values_at(lon, lat).tolist() == [1, 0]


def test_the_largest_countries_are_by_area_and_the_others_are_not_asked_for(made: Path) -> None:
    found = globe.read_raster(made / globe.FILE)
    found.country[60:62, 360:540] = 9  # a small one
    labels = globe.country_labels(found, 3)
    assert set(labels.names[:2]) == {"7", "8"}
    assert labels.names[2] == "10"
    assert labels.macro
    asked = labels.cell_mask
    assert not asked[60:62].any()
    assert bool((labels.cells[asked] >= 0).all())
    assert asked.sum() == 118 * 180 + 120 * 180 + 11 * 720
    with pytest.raises(ValueError, match="the raster has 4 countries, and 2 to all of them can be classes; got 5"):
        globe.country_labels(found, 5)


def test_a_raster_that_cannot_be_read_is_one_sentence(made: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"does not exist; it should hold Natural Earth's land and countries\. Name its folder: --data DIR",
    ):
        globe.read_raster(tmp_path / "nowhere")
    np.savez(made / globe.FILE, land=np.zeros((2, 3), np.uint8), country_iso=np.zeros((2, 3), np.int16))
    with pytest.raises(
        ValueError,
        match=r"360 rows of 720 half-degree cells: land of .* of the shape \(2, 3\); it should be .*\(360, 720\)",
    ):
        globe.read_raster(made / globe.FILE)
    np.savez(made / globe.FILE, land=np.zeros((2, 3), np.uint8))
    with pytest.raises(ValueError, match="is not a raster of land and country_iso"):
        globe.read_raster(made / globe.FILE)
    (made / globe.FILE).write_bytes(b"PK\3\4 cut short")
    with pytest.raises(ValueError, match="is not a raster of land and country_iso"):
        globe.read_raster(made / globe.FILE)


@pytest.mark.data
def test_natural_earth_is_what_it_should_be() -> None:
    folder = os.environ.get("POSENC_DATA")
    if not folder or not (Path(folder) / globe.FILE).is_file():
        pytest.skip("POSENC_DATA is not set, or has no geo/natural_earth_110m_raster.npz")
    found = globe.read_raster(Path(folder) / globe.FILE)
    share = (found.land.double() * globe.cell_areas()[:, None]).sum()
    assert 0.28 < float(share) < 0.30  # the Earth's is 29.2%
    assert bool(found.land[340:].float().mean(1).gt(0.7).all()), "the south pole lies in Antarctica"
    countries = globe.country_labels(found, 40)
    assert countries.names[:6] == ("643", "10", "124", "840", "156", "76")
    for code, at in {"643": (37.6, 55.7), "36": (133.9, -23.7), "10": (0.0, -89.9)}.items():
        lon, lat = (torch.tensor([x], dtype=torch.float64) for x in at)
        assert countries.names[int(countries.values_at(lon, lat))] == code


# the field -----------------------------------------------------------------------------------------------------------


def test_the_field_is_the_sum_of_harmonics_that_it_says() -> None:
    field = globe.random_field(5, 2.0, seed=3)
    assert field.degree == 5
    lon, lat = globe.draw_places(field.cell_mask, 40, generator())
    expected = np.zeros(40)
    for l in range(6):  # noqa: E741
        for m in range(-l, l + 1):
            y = sph_harm_y(l, abs(m), np.pi / 2 - np.deg2rad(lat.numpy()), np.deg2rad(lon.numpy())) * (-1) ** m
            real = y.real if m == 0 else np.sqrt(2) * (y.imag if m < 0 else y.real)
            expected += float(field.coefficients[l * l + l + m]) * real
    np.testing.assert_allclose(field.values_at(lon, lat).numpy(), expected, atol=1e-12)


def test_the_field_has_mean_0_and_variance_1_on_the_sphere_and_one_value_at_a_pole() -> None:
    field = globe.random_field(12, 2.0, seed=0)
    lon, lat = globe.draw_places(field.cell_mask, 40000, generator())
    values = field.values_at(lon, lat)
    assert abs(float(values.mean())) < 0.02
    assert float(values.var()) == pytest.approx(1, abs=0.03)
    around = torch.linspace(-180, 180, 9, dtype=torch.float64)
    for pole in (90.0, -90.0):
        assert float(field.values_at(around, torch.full_like(around, pole)).std()) < 1e-9
    assert torch.equal(field.coefficients, globe.random_field(12, 2.0, seed=0).coefficients)
    assert not torch.equal(field.coefficients, globe.random_field(12, 2.0, seed=1).coefficients)


def test_a_field_says_how_much_of_it_lies_in_the_span_of_the_coarse_harmonics() -> None:
    field = globe.random_field(12, 2.0, seed=4)
    lon, lat = globe.draw_places(field.cell_mask, 60000, generator())
    coarse = globe.Field(field.coefficients[:16])
    assert field.variance_share(3) == pytest.approx(float(coarse.values_at(lon, lat).var()), abs=0.03)
    assert (field.variance_share(0), field.variance_share(12)) == (0, 1)


def test_a_larger_power_makes_a_smoother_field() -> None:
    lat = torch.zeros(2000, dtype=torch.float64)
    lon = torch.linspace(-180, 180, 2000, dtype=torch.float64)
    steep = [float(globe.random_field(16, p, seed=1).values_at(lon, lat).diff().abs().mean()) for p in (0.0, 2.0, 4.0)]
    assert steep == sorted(steep, reverse=True)
    with pytest.raises(ValueError, match="a field that is not a constant has degree 1 or more; got 0"):
        globe.random_field(0, 2.0, seed=0)


# places --------------------------------------------------------------------------------------------------------------


def test_places_are_drawn_by_area() -> None:
    lon, lat = globe.draw_places(torch.ones(360, 720, dtype=torch.bool), 20000, generator())
    height, edges = torch.deg2rad(lat).sin(), torch.linspace(-1, 1, 11)
    counts = torch.histogram(height.float(), edges).hist
    assert float(counts.min()) > 1850
    assert float(counts.max()) < 2150
    across = torch.histogram(lon.float(), torch.linspace(-180, 180, 11)).hist
    assert float(across.min()) > 1850
    assert float(across.max()) < 2150


def test_places_stay_within_their_cells_and_none_are_drawn_where_there_are_no_cells() -> None:
    one = torch.zeros(360, 720, dtype=torch.bool)
    assert len(globe.draw_places(one, 5, generator())[0]) == 0
    one[0, 719] = one[359, 0] = one[180, 360] = True
    row, column = globe.cell_index(*globe.draw_places(one, 500, generator()))
    assert bool(one[row, column].all())


def test_cells_of_the_split_are_about_alike_in_area_and_end_at_the_date_line() -> None:
    number = globe.split_cells()
    assert torch.equal(number[::2], number[1::2])
    assert (number[:, 0] != number[:, -1]).all()
    areas = torch.zeros(int(number.max()) + 1, dtype=torch.float64)
    areas.index_add_(0, number.flatten(), globe.cell_areas()[:, None].expand(360, 720).flatten())
    assert float(areas.max() / areas.median()) < 2
    assert float(areas.min() / areas.median()) > 0.3


def test_no_held_out_place_lies_in_a_trained_cell() -> None:
    samples = globe.sample_places(globe.random_field(4, 2.0, seed=0), train=4000, held=1000, band=100, seed=1)
    number = globe.split_cells()
    trained = set(number[globe.cell_index(samples.train.lon, samples.train.lat)].tolist())
    assert len(trained) > 3000
    for places in (samples.everywhere, samples.date_line, samples.poles):
        assert trained.isdisjoint(number[globe.cell_index(places.lon, places.lat)].tolist())
    out = globe.held_out_cells(generator(1))
    assert float(out[number.unique(return_inverse=True)[1] >= 0].float().mean()) == pytest.approx(0.2, abs=0.02)


def test_regions_hold_what_they_are_called() -> None:
    samples = globe.sample_places(globe.random_field(4, 2.0, seed=0), train=10, held=300, band=50, seed=0)
    assert float(samples.date_line.lon.abs().min()) > 175
    assert (
        min(float((samples.date_line.lon > 0).float().mean()), float((samples.date_line.lon < 0).float().mean())) > 0.4
    )
    for number, band in enumerate(samples.bands):
        assert float(band.lat.min()) > -90 + 10 * number
        assert float(band.lat.max()) < -80 + 10 * number
    assert float(samples.poles.lat.abs().min()) > 80
    assert float((samples.poles.lat > 0).float().mean()) == 0.5
    field = globe.random_field(4, 2.0, seed=0)
    torch.testing.assert_close(samples.poles.target.double(), field.values_at(samples.poles.lon, samples.poles.lat))


def test_regions_are_caps_and_a_strip() -> None:
    cells = globe.regions()
    share = {name: float((globe.cell_areas()[:, None] * mask).sum()) for name, mask in cells.items()}
    assert share["poles"] == pytest.approx(1 - math.cos(math.radians(10)))
    assert share["date_line"] == pytest.approx(10 / 360)
    assert float(globe.draw_places(cells["poles"], 200, generator())[1].abs().min()) > 80
    assert float(globe.draw_places(cells["date_line"], 200, generator())[0].abs().min()) > 175


def test_places_of_a_question_lie_where_it_is_asked_and_seeds_differ() -> None:
    cells = torch.full((360, 720), -1)
    cells[100:200, 300:500], cells[200:260, 300:500] = 0, 1
    labels = Labels(cells, ("a", "b"), macro=True)
    samples = globe.sample_places(labels, train=300, held=200, band=20, seed=0)
    assert samples.train.target.unique().tolist() == [0, 1]
    assert torch.equal(labels.values_at(samples.everywhere.lon, samples.everywhere.lat), samples.everywhere.target)
    assert [len(band) for band in samples.bands] == [0] * 5 + [20] * 8 + [0] * 5
    assert len(samples.poles) == len(samples.date_line) == 0
    again, other = (globe.sample_places(labels, train=300, held=200, band=20, seed=seed) for seed in (0, 1))
    assert torch.equal(samples.train.lon, again.train.lon)
    assert not torch.equal(samples.train.lon, other.train.lon)
    with pytest.raises(ValueError, match="the target is defined on no training cell or on no held-out cell"):
        globe.sample_places(Labels(torch.full((360, 720), -1), ("a", "b")), train=1, held=1, band=1, seed=0)
    with pytest.raises(ValueError, match="at least one place of each kind; got train=0"):
        globe.sample_places(labels, train=0, held=1, band=1, seed=0)


def test_views_are_the_same_places() -> None:
    lon = torch.tensor([0.0, 90.0, -180.0, 10.0], dtype=torch.float64)
    lat = torch.tensor([0.0, 0.0, 0.0, 90.0], dtype=torch.float64)
    found = globe.views(lon, lat)
    np.testing.assert_allclose(found["lonlat"].coords[:3, 0], [0, math.pi / 2, -math.pi])
    np.testing.assert_allclose(found["xyz"].coords, [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, 0, 1]], atol=1e-12)
    np.testing.assert_allclose(found["picture"].coords, [[90, 90], [90, 135], [90, 0], [0, 95]])


# scores --------------------------------------------------------------------------------------------------------------


def test_a_macro_accuracy_counts_classes_alike() -> None:
    logits = torch.eye(3)[[0, 0, 0, 1, 0]]
    target = torch.tensor([0, 0, 0, 1, 1])
    assert globe.accuracy(logits, target, macro=False) == pytest.approx(4 / 5)
    assert globe.accuracy(logits, target, macro=True) == pytest.approx((1 + 1 / 2) / 2)  # class 2 does not occur
    assert globe.cross_entropy(torch.zeros(2, 3), torch.tensor([0, 2])) == pytest.approx(math.log(3))
    assert globe.rmse(torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0])) == pytest.approx(math.sqrt(4.5))


def test_a_jump_is_found_at_the_date_line_and_not_elsewhere() -> None:
    for of, at_the_line in ((lambda lon: lon / 180, 2.0), (lambda lon: torch.deg2rad(lon).cos(), 0.0)):
        for meridian, expected in ((DATE_LINE, at_the_line), (ELSEWHERE, 0.0)):
            lon, lat = globe.seam_places(meridian)
            assert lon.abs().max() <= 180
            assert globe.seam_jump(of(lon)[:, None]) == pytest.approx(expected, abs=1e-4)
            assert torch.equal(*lat.chunk(2))
    certain = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert globe.seam_jump(certain) == 1  # total variation


def test_latitudes_beside_a_meridian_are_by_area() -> None:
    lat = globe.seam_places(DATE_LINE)[1].chunk(2)[0]
    assert float((lat.abs() < 30).double().mean()) == 0.5  # half the sphere lies there


def test_a_raster_is_plain_tensors() -> None:
    found = Raster(torch.zeros(360, 720, dtype=torch.bool), torch.zeros(360, 720, dtype=torch.int64))
    assert globe.land_labels(found).cell_mask.all()
    assert raster.PER_DEGREE == 2
