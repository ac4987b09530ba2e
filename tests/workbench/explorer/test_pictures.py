"""Arrays of the explorer are those of the library."""

from __future__ import annotations

import base64
import json
import math
import zlib

import numpy as np
import pytest
import torch

from posenc.lookup.scheme_text import parse
from posenc.measure.distance_decay import logit_by_distance, logit_on_plane, pair_logits
from posenc.measure.grid_cells import firing_maps
from posenc.positions import grid, sequence, sphere
from posenc.schemes import catalogue
from posenc.workbench.explorer.arrays import MOST, curve, packed, unpacked
from posenc.workbench.explorer.configurations import Configuration, configurations
from posenc.workbench.explorer.manifest import array_file, write_site_files
from posenc.workbench.explorer.pictures import DISTANCES, PICTURES, PLANE, TOKENS, draw, make

pytestmark = pytest.mark.bare


def close(found: dict, wanted: np.ndarray) -> None:
    """A packed map has the values, to one of its steps."""
    step = (found["high"] - found["low"]) / MOST
    np.testing.assert_allclose(unpacked(found), wanted, atol=0.51 * step, rtol=0)


def test_packed_maps_keep_their_ends_and_missing_values() -> None:
    values = torch.tensor([[0.5, -3.0, math.nan], [7.25, 1e-5, 2.0]], dtype=torch.float64)
    found = packed(values)
    assert found["shape"] == [2, 3]
    assert (found["low"], found["high"]) == (-3.0, 7.25)
    close(found, values.numpy())
    assert np.isnan(unpacked(packed(torch.full((2,), math.nan)))).all()
    close(packed(torch.full((3,), 2.5)), np.full(3, 2.5))
    assert curve([1 / 3, None, math.inf, math.nan]) == [0.333333, None, None, None]


def test_curves_are_the_logits_of_posenc_show() -> None:
    shown = make(parse("RoPE(12, base=500.0)"))
    equal, spread = draw(shown, "kernel")["drawings"]
    rows = logit_by_distance(shown.scheme, DISTANCES)
    assert equal["series"][0]["x"] == [row["distance"] for row in rows]
    assert equal["series"][0]["y"] == pytest.approx([row["logit"] for row in rows], rel=1e-5)
    assert spread["series"][0]["low"][0] < spread["series"][0]["y"][0] < spread["series"][0]["high"][0]
    (alibi,) = draw(make(parse("ALiBi(4)")), "kernel")["drawings"]  # its bias does not depend on content
    assert alibi["series"][0]["name"] == "head 1, slope 1/4"


def test_a_map_on_a_plane_has_the_logits_of_every_query() -> None:
    shown = make(parse("GridPE(12, extent=6.0)"))
    (found,) = draw(shown, "map")["drawings"]
    side = 2 * PLANE + 1
    values = unpacked(found["values"]).reshape(-1, side, side)
    middle = values[found["queries"].index([PLANE, PLANE])]
    np.testing.assert_allclose(middle, np.array(logit_on_plane(shown.scheme, PLANE)), atol=3e-3)
    number = found["queries"].index([0, 4])
    there = pair_logits(shown.scheme, grid(side, side), torch.tensor([4]))[0, 0, 0].reshape(side, side)
    np.testing.assert_allclose(values[number], there.numpy(), atol=3e-3)
    assert not found["globe"]


@pytest.mark.parametrize("unit", ["radians", "degrees"])
def test_a_map_on_the_globe_does_not_depend_on_the_unit(unit: str) -> None:
    shown = make(parse(f"SphericalHarmonics(3, unit={unit!r})"))
    (found,) = draw(shown, "map")["drawings"]
    assert found["globe"]
    lat, lon = found["rows"], found["columns"]
    row, column = found["queries"][5]
    scheme = catalogue()["SphericalHarmonics"](3).double()
    places = sphere(torch.tensor(lon).repeat(len(lat)).double(), torch.tensor(lat).repeat_interleave(len(lon)).double())
    rows = scheme.embed(scheme.prepare(places))
    rows = rows / rows.norm(dim=-1, keepdim=True)
    wanted = (rows[row * len(lon) + column] @ rows.T).detach().numpy()
    np.testing.assert_allclose(unpacked(found["values"])[5], wanted, atol=3e-3)


def test_values_are_channels_or_logits() -> None:
    shown = make(parse("Sinusoid(12)"))
    (found,) = draw(shown, "values")["drawings"]
    close(found["values"], firing_maps(shown.scheme, sequence(2 * TOKENS + 1)).numpy())
    bias = make(parse("ALiBi(2)"))
    (found,) = draw(bias, "values")["drawings"]
    close(
        found["values"], pair_logits(bias.scheme, sequence(2 * TOKENS + 1), torch.arange(2 * TOKENS + 1))[0, 0].numpy()
    )


@pytest.mark.parametrize(
    ("call", "picture", "words"),
    [
        ("RoPE(12)", "map", "RoPE reads positions of one axis"),
        ("ALiBi(4)", "frequencies", "ALiBi has no table of frequencies"),
        ("ALiBi(4)", "stretch", "takes no frequency schedule"),
        ("Learned(12, 32)", "far", "Learned has a limited range"),
        ("PEG(12)", "values", "PEG changes no logits: it acts at mix."),
    ],
)
def test_an_absent_picture_says_why(call: str, picture: str, words: str) -> None:
    assert words in draw(make(parse(call)), picture)["absent"]


def test_errors_that_are_zero_are_said_and_not_drawn() -> None:
    (alone,) = draw(make(parse("ALiBi(4)")), "far")["drawings"]
    assert "rounding changes no logit at distances up to" in alone["title"]
    logit, errors = draw(make(parse("RoPE(12)")), "far")["drawings"]
    assert "rounding" not in logit["title"]
    assert {each["name"] for each in errors["series"]} <= {"float32", "bfloat16"}


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match=r"draws up to 4,096 channels and 64 heads; this encoding has 5,000 channels"):
        make(parse("Sinusoid(5000)"))
    with pytest.raises(ValueError, match="must be even; got 63"):
        make(parse("RoPE(63)"))


def test_stretching_follows_the_training_length() -> None:
    waves, logits = draw(make(parse("RoPE(12, base=100.0)"), trained=32, factor=2.0), "stretch")["drawings"]
    assert [each["name"] for each in waves["series"]] == ["as chosen", "linear", "ntk", "yarn", "longrope"]
    assert waves["marks"] == [{"y": 32, "label": "training length"}]
    assert logits["series"][0]["x"][-1] == 64


def test_files_of_the_site(tmp_path) -> None:
    rope = catalogue()["RoPE"]
    assert write_site_files(tmp_path / "explorer", []) == 0
    computed = configurations(rope)
    text = array_file(computed[0])
    assert text.startswith(f'posencExplorer.receive("{computed[0].key}", ')
    data = json.loads(text.partition(", ")[2].removesuffix(");\n"))
    content = json.loads(zlib.decompress(base64.b64decode(data)))
    assert list(content["pictures"]) == list(PICTURES)
    assert content["code"].endswith("scheme = RoPE(head_dim=64)\n")
    unwritten = Configuration(computed[0].call, rope, {})  # an example that text cannot hold has no code
    data = json.loads(array_file(unwritten).partition(", ")[2].removesuffix(");\n"))
    assert json.loads(zlib.decompress(base64.b64decode(data)))["code"] == ""
    assert (tmp_path / "explorer" / "plots.js").is_file()


@pytest.mark.full
@pytest.mark.parametrize("name", catalogue())
def test_every_scheme_is_drawn(name: str) -> None:
    first = configurations(catalogue()[name])[0]
    shown = make(first.call, first.kind)
    found = {picture: draw(shown, picture) for picture in PICTURES}
    assert "drawings" in found["kernel"]
    json.dumps(found, allow_nan=False)
