"""PositionEncoder on tables: kinds, ranges, names, data frames, pipelines and searches."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="pip install 'posenc[places]'")
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

from posenc import FourierFeatures, Positions, SphericalHarmonics, sphere, times
from posenc.adapt.sklearn import NetworkClassifier, NetworkRegressor, PositionEncoder

pd = pytest.importorskip("pandas")
PLACES = np.array([[13.4, 52.5], [-122.4, 37.8], [151.2, -33.9], [180.0, 10.0]])
FRAME = pd.DataFrame({"longitude": PLACES[:, 0], "latitude": PLACES[:, 1], "income": [1.0, 2.0, np.nan, 4.0]})
AT = ["longitude", "latitude"]
pytestmark = pytest.mark.filterwarnings("error")


def rows(scheme: str, points: Any, **options: Any) -> np.ndarray:
    return PositionEncoder(scheme, random_state=0, **options).fit_transform(np.asarray(points, float))


# kinds -------------------------------------------------------------------------------------------------------------
def test_rows_on_a_sphere_are_those_of_the_scheme() -> None:
    scheme = SphericalHarmonics(3)
    lon, lat = torch.tensor(PLACES).T
    wanted = scheme.embed(scheme.prepare(sphere(lon, lat)))
    np.testing.assert_allclose(rows("SphericalHarmonics(3)", PLACES, kind="sphere"), wanted.numpy(), atol=1e-12)


def test_three_axes_of_a_sphere_are_its_points_in_a_box() -> None:
    made = rows("Coordinates", PLACES, kind="sphere")
    lon, lat = np.radians(PLACES).T
    points = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], 1)
    extent = np.ptp(points, axis=0).max()
    np.testing.assert_allclose(made, (points - points.min(0)) / extent, atol=1e-12)


@pytest.mark.parametrize(
    "scheme", ["SphericalHarmonics(3)", "FourierFeatures(32, sigma=2)", "Space2VecTheory", "SphereC"]
)
def test_one_place_has_one_encoding_whatever_its_longitude_is_called(scheme: str) -> None:
    encoder = PositionEncoder(scheme, kind="sphere", random_state=0).fit(PLACES)
    np.testing.assert_allclose(*encoder.transform([[-170.0, 10.0], [190.0, 10.0]]), atol=1e-9)
    np.testing.assert_allclose(*encoder.transform([[-180.0, 10.0], [180.0, 10.0]]), atol=1e-9)


@pytest.mark.parametrize(
    "scheme", ["SphericalHarmonics(3)", "FourierFeatures(32, sigma=2)", "Sinusoid", "SphereC(1)", "SphereM(1)"]
)
def test_these_schemes_are_continuous_at_the_meridian_of_180_degrees(scheme: str) -> None:
    encoder = PositionEncoder(scheme, kind="sphere", random_state=0).fit(PLACES)
    np.testing.assert_allclose(*encoder.transform([[-180 + 1e-7, 10.0], [180 - 1e-7, 10.0]]), atol=1e-5)


@pytest.mark.parametrize(
    "scheme",
    ["SphereC", "SphereM", "SphereDFS", "SphereCPlus", "SphereMPlus", "Space2VecGrid(16, r_min=0.01, r_max=1)"],
)
def test_these_are_not_as_the_document_states(scheme: str) -> None:
    encoder = PositionEncoder(scheme, kind="sphere").fit(PLACES)
    west, east = encoder.transform([[-180 + 1e-7, 10.0], [180 - 1e-7, 10.0]])
    assert np.abs(west - east).max() > 0.1


def test_planar_coordinates_fill_a_box_whose_axes_keep_their_ratio() -> None:
    np.testing.assert_allclose(rows("Coordinates", [[10, 5], [30, 15], [20, 5]]), [[0, 0], [1, 0.5], [0.5, 0]])
    np.testing.assert_allclose(rows("Coordinates", [[1000, 500]], unit=1000), [[1, 0.5]])


def test_a_cycle_closes() -> None:
    encoder = PositionEncoder(kind="cyclic", period=24).fit([[0.0], [5.0]])
    made = encoder.transform([[0.0], [24.0], [-24.0], [12.0]])
    np.testing.assert_allclose(made[0], made[1], atol=1e-12)
    np.testing.assert_allclose(made[0], made[2], atol=1e-12)
    assert np.abs(made[0] - made[3]).max() > 0.5
    circle = rows("Coordinates", [[0.0], [6.0]], kind="cyclic", period=24)
    np.testing.assert_allclose(circle, [[1, 0], [0, 1]], atol=1e-12)
    assert rows("Coordinates(axes=1)", [[6.0]], kind="cyclic", period=24) == pytest.approx(np.pi / 2)


def test_unix_times_that_float32_has_rounded_are_refused() -> None:
    stamps = 1.7e9 + 30 * np.arange(4.0)
    encoder = PositionEncoder("Sinusoid(8)", kind="time", unit="second")
    assert len(np.unique(encoder.fit_transform(stamps[:, None]), axis=0)) == 4
    with pytest.raises(ValueError, match="in float32 are rounded to steps of 128 or more"):
        encoder.fit(stamps[:, None].astype(np.float32))


def test_times_are_days_since_1970_in_every_form() -> None:
    stamps = pd.date_range("2024-03-30T22:00", periods=5, freq="h", tz="Europe/Berlin")
    plain = stamps.tz_convert("UTC").tz_localize(None)
    wanted = times(plain, unit="day").coords.numpy()
    forms = {
        "zone": pd.DataFrame({"when": stamps}),
        "numpy": plain.to_numpy()[:, None],
        "objects": pd.DataFrame({"when": np.array(plain.to_pydatetime(), dtype=object)}),
        "text": pd.DataFrame({"date": plain.astype(str)}),
    }
    for form, table in forms.items():
        encoder = PositionEncoder("Coordinates").fit(table)
        assert encoder.kind_ == "time", form
        np.testing.assert_allclose(encoder.transform(table), wanted, rtol=0, atol=1e-9, err_msg=form)
    numbers = PositionEncoder("Coordinates", kind="time", unit="second").fit_transform([[3.0], [5.0]])
    assert numbers.ravel().tolist() == [3.0, 5.0]
    assert PositionEncoder().fit_transform(forms["zone"]).shape == (5, 24)


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"lon": [1.0, 2], "lat": [3.0, 4]}, "sphere"),
        ({"pickup_longitude": [1.0, 2], "pickup_latitude": [3.0, 4]}, "sphere"),
        ({"lon": [4.2e6, 4.3e6], "lat": [3.0e6, 3.1e6]}, "planar"),
        ({"x": [1.0, 2], "y": [3.0, 4]}, "planar"),
        ({"hour": [0.0, 23.0]}, "cyclic"),
        ({"day_of_week": [0.0, 6.0]}, "cyclic"),
        ({"hour": [0.0, 700.0]}, "planar"),
        ({"wind_azimuth": [10.0, 350.0]}, "cyclic"),
        ({"heading": [0.1, 3.1]}, "planar"),
        ({"when": np.array(["2024-01-01", "2024-01-02"], "datetime64[s]")}, "time"),
    ],
)
def test_the_kind_is_found_by_name_type_and_range(columns: dict[str, Any], kind: str) -> None:
    assert PositionEncoder().fit(pd.DataFrame(columns)).kind_ == kind


# refusals ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("encoder", "says"),
    [
        (PositionEncoder(columns=["latitude", "longitude"]), "Write columns=['longitude', 'latitude']"),
        (PositionEncoder(columns=AT[:1]), "reads 2 features, longitude and latitude"),
        (PositionEncoder(columns=["income"]), "1 of 4 values of column 'income' are NaN"),
        (PositionEncoder(columns=["lat"]), "'lat' is not among the 3 columns"),
        (PositionEncoder(columns=AT, kind="globe"), "kind is 'sphere', 'planar'"),
        (PositionEncoder(columns=AT, kind="sphere", period=24), "`period` is of kind='cyclic'"),
        (PositionEncoder(columns=AT, kind="sphere", unit=2.0), "`unit` is of kind='planar' or 'time'"),
        (PositionEncoder(columns=AT, kind="cyclic"), "needs the period of 'longitude'"),
        (PositionEncoder(columns=AT, kind="cyclic", period=(24,)), "one for each of longitude, latitude"),
        (PositionEncoder(columns=AT, kind="time"), "kind='time' reads one column"),
        (PositionEncoder(columns=AT[:1], kind="time"), "longitude holds numbers, which have no unit"),
        (PositionEncoder(columns=AT, keep="some"), "keep is 'none', 'others', 'all'"),
        (PositionEncoder("SIREN(8)", columns=AT), "NetworkRegressor(PositionEncoder(..))"),
        (PositionEncoder("FourierFeatures(8, learned=True)", columns=AT), "has trained parameters"),
        (PositionEncoder("RoPE(8)", columns=AT), "RoPE acts at k, q"),
        (PositionEncoder("RWSE(8)", columns=AT), "RWSE reads graphs"),
        (PositionEncoder("Time2Vec(8)", columns=AT), "reads 1 axes, and kind='sphere' with n_features = 2 has 3 or 2"),
        (PositionEncoder("SphericalHarmonics(3, unit='degrees')", columns=AT), "passes radians to SphericalHarmonics"),
        (PositionEncoder("Sinusiod", columns=AT), "Did you mean Sinusoid"),
        (PositionEncoder(7, columns=AT), "text of a scheme, or a scheme; got int"),
        (PositionEncoder(FourierFeatures(8, 3), columns=AT, options={"sigma": 2}), "this scheme is built"),
        (PositionEncoder(columns=AT, options=3), "options are a dict"),
    ],
)
def test_bad_input_gets_one_sentence(encoder: PositionEncoder, says: str) -> None:
    with pytest.raises(ValueError) as error:
        encoder.fit(FRAME)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.array(["2024-01-01", "NaT"], "datetime64[us]"), "holds dates, which have no unit"),
        (np.array([1, 2], "timedelta64[h]"), "holds durations, which have no unit"),
        (["1", "2"], "does not hold numbers"),
    ],
)
def test_a_kept_column_of_times_or_of_text_of_numbers_is_refused(values: object, says: str) -> None:
    """Before, dates became integers of their resolution, so that a model met other numbers for the same date."""
    table = pd.DataFrame({"lon": [13.4, 2.4], "lat": [52.5, 48.9], "sold": values})
    with pytest.raises(ValueError, match=f"column 'sold' {says}"):
        PositionEncoder(columns=["lon", "lat"]).fit(table)
    assert PositionEncoder(columns=["lon", "lat"], keep="none", random_state=0).fit_transform(table).shape == (2, 66)


@pytest.mark.parametrize(
    "stamps", [pd.to_datetime(["2024-01-01", None]), pd.to_datetime(["2024-01-01", None], utc=True)]
)
def test_missing_times_are_counted_with_their_column(stamps: pd.DatetimeIndex) -> None:
    with pytest.raises(
        ValueError, match=r"1 of 2 times of column 'when' are missing \(NaN or NaT\)\. Leave these rows out"
    ):
        PositionEncoder(kind="time").fit(pd.DataFrame({"when": stamps}))


def test_widths_columns_and_rates_that_are_none_are_refused() -> None:
    x, y = np.zeros((4, 2)), np.arange(4.0)
    with pytest.raises(ValueError, match=r"hidden is the width of each hidden layer, as \(128, 128\); got 16"):
        NetworkRegressor(hidden=16).fit(x, y)
    with pytest.raises(ValueError, match="learning_rate is a positive number; got 0"):
        NetworkRegressor(learning_rate=0).fit(x, y)
    with pytest.raises(ValueError, match="names the coordinate columns, each once, by name or number; slice"):
        PositionEncoder(columns=slice(0, 2)).fit(x)


def test_places_beyond_the_globe_and_text_are_refused() -> None:
    with pytest.raises(ValueError, match="latitude lies within ±90 degrees; x1 reaches 122"):
        PositionEncoder(kind="sphere").fit([[37.8, -122.4]])
    with pytest.raises(ValueError, match="longitude lies within ±360 degrees; x0 reaches 4e"):
        PositionEncoder(kind="sphere").fit([[4e6, 12.0]])
    with pytest.raises(ValueError, match="column 'coast' does not hold numbers"):
        PositionEncoder(columns=AT).fit(FRAME.assign(coast="near"))
    with pytest.raises(ValueError, match="has 0 rows"):
        PositionEncoder(columns=AT).fit(FRAME[:0])
    with pytest.raises(ValueError, match=r"several kinds: longitude \(sphere\), latitude \(sphere\), age \(planar\)"):
        PositionEncoder().fit(FRAME[AT].assign(age=3.0))


# tables and pipelines ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("keep", "names"), [("none", []), ("others", ["income"]), ("all", [*AT, "income"])])
def test_kept_columns_come_first_under_their_names(keep: Any, names: list[str]) -> None:
    encoder = PositionEncoder("SphericalHarmonics(1)", columns=AT, keep=keep).set_output(transform="pandas")
    made = encoder.fit_transform(FRAME)
    assert list(made) == [*names, *(f"longitude_latitude_sphericalharmonics_{i}" for i in range(4))]
    pd.testing.assert_frame_equal(made[names], FRAME[names])


def test_polars_in_and_out() -> None:
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME})
    encoder = PositionEncoder("SphericalHarmonics(2)", columns=AT).fit(table).set_output(transform="polars")
    made = encoder.transform(table)
    assert isinstance(made, pl.DataFrame)
    assert made.columns[:2] == ["income", "longitude_latitude_sphericalharmonics_0"]
    np.testing.assert_array_equal(made.to_numpy(), encoder.set_output(transform="default").transform(FRAME))
    when = pl.DataFrame({"when": np.array(["2024-01-01T06", "2024-01-02"], "datetime64[ms]")})
    zoned = when.with_columns(pl.col("when").dt.replace_time_zone("UTC"))
    for stamps in (when, zoned):
        made = PositionEncoder("Coordinates").fit_transform(stamps)
        assert made.ravel().tolist() == [19723.25, 19724.0]


def test_columns_of_an_array_by_number() -> None:
    table = np.array([[1.0, 2, 9], [3, 6, np.nan]])
    made = PositionEncoder("Coordinates", columns=[1, 0], kind="planar").fit_transform(table)
    np.testing.assert_array_equal(made, [[9, 0, 0], [np.nan, 1, 0.5]])


def test_several_kinds_in_a_column_transformer_and_a_union() -> None:
    table = FRAME.assign(hour=[0.0, 6, 12, 18])
    parts = make_column_transformer(
        (PositionEncoder(), AT), (PositionEncoder(), ["hour"]), verbose_feature_names_out=False, remainder="passthrough"
    )
    names = list(parts.fit(table).get_feature_names_out())
    assert names[0] == "longitude_latitude_fourierfeatures_0"
    assert names[-2:] == ["hour_sinusoid_7", "income"]
    both = make_union(
        PositionEncoder("SphericalHarmonics(2)", kind="sphere"), PositionEncoder("Sinusoid", kind="sphere")
    )
    assert both.fit_transform(PLACES).shape == (4, 9 + 66)


def test_options_of_the_scheme_are_parameters_of_a_search() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (200, 1))
    target = np.sin(9 * x[:, 0])
    model = make_pipeline(PositionEncoder("FourierFeatures(32, sigma=30)", random_state=0), Ridge(1e-3))
    search = GridSearchCV(model, {"positionencoder__options__sigma": [30.0, 1.0]}, cv=3).fit(x, target)
    assert search.best_params_ == {"positionencoder__options__sigma": 1.0}
    assert search.best_score_ > 0.9
    assert search.best_estimator_[0].scheme_.sigma == 1.0
    assert search.best_estimator_[0].get_params()["options__sigma"] == 1.0
    texts = {"positionencoder__scheme": ["FourierFeatures(32, sigma=30)", "FourierFeatures(32)"]}
    assert GridSearchCV(model, texts, cv=3).fit(x, target).best_index_ == 1


def test_random_schemes_repeat_with_a_seed_and_after_pickling() -> None:
    encoder = PositionEncoder(columns=AT, random_state=3).fit(FRAME)
    np.testing.assert_array_equal(encoder.transform(FRAME), pickle.loads(pickle.dumps(encoder)).transform(FRAME))
    np.testing.assert_array_equal(
        encoder.transform(FRAME), PositionEncoder(columns=AT, random_state=3).fit(FRAME).transform(FRAME)
    )
    other = PositionEncoder(columns=AT, random_state=4).fit(FRAME)
    assert np.abs(encoder.transform(FRAME)[:, 1:] - other.transform(FRAME)[:, 1:]).max() > 0.1


def test_the_global_generator_of_torch_is_left_alone() -> None:
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    PositionEncoder(columns=AT).fit(FRAME)
    NetworkRegressor(steps=2).fit(PLACES, PLACES[:, 0])
    torch.testing.assert_close(torch.rand(3), wanted, rtol=0, atol=0)


# networks ----------------------------------------------------------------------------------------------------------
def test_a_network_trains_the_table_of_its_scheme_and_reads_kept_columns() -> None:
    place = np.tile(np.arange(8.0), 20)
    further = np.random.default_rng(0).normal(size=160)
    target = np.random.default_rng(1).normal(size=8)[place.astype(int)] + further
    table = pd.DataFrame({"row": place, "further": further})
    encoder = PositionEncoder("Learned(16, 8)", columns=["row"], kind="planar", unit=1)
    model = NetworkRegressor(encoder, hidden=(64,), steps=300, random_state=0).fit(table, target)
    assert model.score(table, target) > 0.98
    start = clone_of(encoder, model.encoder_.random_state).scheme_.table
    assert float((model.network_.scheme.table - start).detach().abs().max()) > 0.01
    assert model.encoder_.transform(table).shape == (160, 17)
    np.testing.assert_array_equal(model.predict(table), pickle.loads(pickle.dumps(model)).predict(table))
    again = NetworkRegressor(encoder, hidden=(64,), steps=300, random_state=0).fit(table, target)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert len(model.loss_curve_) == 100
    assert model.loss_curve_[-1] < 0.1 * model.loss_curve_[0]


def clone_of(encoder: PositionEncoder, seed: int) -> Any:
    """The encoder before its training."""
    other = PositionEncoder(**{**encoder.get_params(deep=False), "random_state": seed})
    other.fit_scheme(pd.DataFrame({"row": np.arange(8.0), "further": 0.0}))
    return other


def test_a_scheme_that_is_passed_keeps_its_values() -> None:
    scheme = FourierFeatures(8, 2, learned=True)
    before = scheme.B.detach().clone()
    x = np.random.default_rng(0).uniform(size=(50, 2))
    model = NetworkClassifier(PositionEncoder(scheme), steps=20, random_state=0).fit(x, x[:, 0] > x[:, 1])
    torch.testing.assert_close(scheme.B.detach(), before, rtol=0, atol=0)
    assert float((model.network_.scheme.B - before).abs().max()) > 0
    pos = Positions(torch.rand(3, 2, dtype=torch.float64))
    assert model.network_.scheme.embed(model.network_.scheme.prepare(pos)).shape == (3, 8)


def test_a_classifier_returns_labels_and_probabilities() -> None:
    x = np.arange(48.0)[:, None] / 2
    label = np.where((x[:, 0] < 6) | (x[:, 0] > 21), "night", "day")
    model = NetworkClassifier(PositionEncoder(kind="cyclic", period=24), steps=150, random_state=0).fit(x, label)
    assert model.score(x, label) > 0.95
    assert model.classes_.tolist() == ["day", "night"]
    np.testing.assert_allclose(model.predict_proba(x).sum(1), 1)
    np.testing.assert_allclose(model.predict_proba([[0.0]]), model.predict_proba([[24.0]]), atol=1e-9)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (NetworkRegressor("SIREN(64)"), "encoder is a PositionEncoder, or None for one of all columns; got str"),
        (NetworkRegressor(hidden=(0,)), "hidden is the width of each hidden layer"),
        (NetworkRegressor(steps=0), "steps is a whole number from 1; got 0"),
        (NetworkClassifier(batch_size=0.5), "batch_size is a whole number from 1; got 0.5"),
    ],
)
def test_a_network_refuses_other_parameters(model: Any, says: str) -> None:
    with pytest.raises(ValueError, match="^" + says.replace("(", r"\(")):
        model.fit(PLACES, [0, 1, 0, 1])


def test_whole_numbers_of_numpy_are_parameters_of_a_network() -> None:
    sizes = {"hidden": [np.int64(4)], "steps": np.int64(3), "batch_size": np.int32(2)}
    assert NetworkRegressor(**sizes).fit(PLACES, [0, 1, 0, 1]).predict(PLACES).shape == (4,)
    with pytest.raises(ValueError, match="steps is a whole number from 1; got True"):
        NetworkRegressor(steps=True).fit(PLACES, [0, 1, 0, 1])


def test_missing_values_of_kept_columns_are_refused_by_a_network() -> None:
    with pytest.raises(ValueError, match="1 missing"):
        NetworkRegressor(PositionEncoder(columns=AT)).fit(FRAME, [0.0, 1, 2, 3])


# imports -----------------------------------------------------------------------------------------------------------
def test_scikit_learn_is_imported_by_this_module_alone_and_named_where_it_is_missing() -> None:
    code = """
import sys, importlib.util
import posenc, posenc.adapt
posenc.RoPE(8)
assert "sklearn" not in sys.modules
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "sklearn" else real(name, *more)
try:
    import posenc.adapt.sklearn
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    wanted = "posenc.adapt.sklearn needs scikit-learn, which is not installed: pip install 'posenc[places]'"
    assert ran.stdout.strip() == wanted


# real data ---------------------------------------------------------------------------------------------------------
@pytest.mark.full
@pytest.mark.bare
@pytest.mark.data
def test_a_place_helps_boosting_and_an_encoding_helps_ridge_on_california() -> None:
    path = Path(os.environ.get("POSENC_DATA", "")) / "places" / "california.csv"
    if not path.is_file():
        pytest.skip("POSENC_DATA names no folder that holds places/california.csv")
    table = pd.read_csv(path).drop(columns="ocean_proximity").fillna(500)
    table = table.sample(6000, random_state=0)
    y = table.pop("median_house_value") / 1e5
    encoder = PositionEncoder("FourierFeatures(66, sigma=1)", columns=AT, keep="all", random_state=0)
    half = slice(0, 3000), slice(3000, 6000)

    def score(model: Any, X: Any) -> float:
        return model.fit(X.iloc[half[0]], y.iloc[half[0]]).score(X.iloc[half[1]], y.iloc[half[1]])

    boosting = HistGradientBoostingRegressor(random_state=0, max_iter=60)
    without = score(boosting, table.drop(columns=AT))
    assert score(make_pipeline(encoder, boosting), table) > without + 0.05
    ridge = make_pipeline(StandardScaler(), Ridge(1.0))
    assert score(make_pipeline(encoder, ridge), table) > score(ridge, table) + 0.01
