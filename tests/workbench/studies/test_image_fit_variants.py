"""Variants and conditions of the image study: parameter counts, learning rates, labels."""

from __future__ import annotations

import msgspec
import pytest

from posenc.models.field import Field
from posenc.workbench.studies.image_fit import conditions, variants
from posenc.workbench.studies.image_fit.presets import Limit
from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import Budget, FieldVariant


@pytest.mark.parametrize(
    ("label", "axes"),
    [
        (name, axes)
        for name in field_variants.NAMES
        for axes in (2, 3)
        if name not in ("dense", "hash") and (name, axes) != ("tensorf", 2)  # TensoRF reads three axes
    ],
)
def test_variants_have_about_the_allowed_parameter_count(label, axes):
    budget = Budget(axes, 3, 60_000, 64)
    field = field_variants.field_variant(label, budget).field()
    assert isinstance(field, Field)
    assert 0.5 * 60_000 < field.parameter_count <= 60_000
    assert field.scheme.claims.axes == axes


@pytest.mark.parametrize("label", ["dense", "hash", "multires"])
@pytest.mark.parametrize("finest", [64, 512])
def test_grids_meet_their_budget_and_are_no_finer_than_allowed(label, finest):
    for parameters in (15_000, 60_000, 1_000_000):
        row = field_variants.field_variant(label, Budget(2, 3, parameters, finest))
        assert 0.75 * parameters < row.field().parameter_count <= parameters
        assert max(row.options.get("resolutions", [row.options.get("resolution")])) <= finest


def test_scales_are_named_or_follow_the_image():
    budget = Budget(2, 3, 60_000, 64, released=8.0)
    labels = ("posenc", "posenc-32", "gaussian-5")
    sigmas = {label: field_variants.field_variant(label, budget).options["sigma"] for label in labels}
    assert sigmas == {"posenc": 8.0, "posenc-32": 32.0, "gaussian-5": 5.0}
    with pytest.raises(ValueError, match=r"'posenc-x' should name posenc by its scale, .*; 'x' is not a number"):
        field_variants.field_variant("posenc-x", budget)


def test_rates_are_those_of_the_authors_and_the_rest_is_shared():
    budget, limit = Budget(2, 3, 60_000, 64), Limit(steps=8, batch=64)
    configs = {
        label: variants.training(label, variants.variant(label, budget), limit)
        for label in (*variants.MAPPINGS, "siren", "none@15000")
    }
    rates = {label: training.lr for label, training in configs.items()}
    assert rates["none"] == rates["basic"] == rates["multires"] == rates["dense"] == rates["none@15000"] == 1e-2
    assert rates["posenc"] == rates["gaussian-10"] == 1e-3
    assert rates["siren"] == 1e-4
    assert all((each.betas, each.eps, each.batch) == ((0.9, 0.99), 1e-15, 64) for each in configs.values())


def test_unknown_variants_are_refused_with_the_nearest():
    budget = Budget(2, 3, 60_000, 64)
    with pytest.raises(ValueError, match=r"no variant 'multiress'\. Did you mean multires"):
        field_variants.field_variant("multiress", budget)
    with pytest.raises(ValueError, match="'x' is not a number"):
        field_variants.field_variant("gaussian-x", budget)
    with pytest.raises(
        ValueError, match=r"no view 'many'\. The views .* number of parameters is possible too: multires@60000"
    ):
        variants.variant("multires@many", budget)
    with pytest.raises(ValueError, match="the variant 'RoPE' cannot be built"):
        field_variants.field_variant("RoPE", budget)
    with pytest.raises(ValueError, match="100 are allowed"):
        field_variants.field_variant("gaussian-10", budget._replace(parameters=100))
    assert field_variants.field_variant("SIREN(dim=32)", budget).field().scheme.out_dim == 32


def test_a_variant_survives_its_way_through_json():
    row = field_variants.field_variant("multires", Budget(2, 3, 60_000, 64))
    again = msgspec.convert(msgspec.json.decode(msgspec.json.encode(row)), FieldVariant)
    assert again.field().parameter_count == row.field().parameter_count


@pytest.mark.parametrize(
    ("label", "protocol", "image", "title"),
    [
        ("main", "fit", "main", "your image, every pixel"),
        ("moon", "fit", "moon", "moon, every pixel"),
        ("moon held-out", "held-out", "moon", "moon, held-out pixels"),
        ("main sizes", "sizes", "main", "your image, several parameter counts"),
        ("a b shifted", "shifted", "a b", "a b, positions shifted by 100 image sides"),
    ],
)
def test_a_label_gives_its_condition(label, protocol, image, title):
    assert (conditions.protocol_of(label), conditions.image_of(label)) == (protocol, image)
    condition = conditions.condition(label)
    assert (condition.label, condition.title) == (label, title)
    assert ("image" in condition.changes) == (image != "main")
    assert condition.has_variant("dense") == (protocol != "sizes")
    assert condition.has_variant("dense@8000")
