"""Variants of the studies of fields: one that cannot be built is refused by name, with what is needed."""

from __future__ import annotations

import pytest

from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import Budget

PLANE = Budget(axes=2, outputs=3, parameters=9000, finest=32)


@pytest.mark.parametrize(
    ("label", "sentence"),
    [
        (
            "MultiResolutionGrid(axes=3)",
            r"the variant 'MultiRes.*' cannot be built: it encodes 3 axes, and a position has 2\.",
        ),
        ("gaussian-nan", r"'gaussian-nan' should name .*, as gaussian-10; 'nan' is not a number above 0\."),
        ("gaussian-0", r"'0' is not a number above 0\."),
        ("posenc-x", r"'posenc-x' should name posenc by its scale, as posenc-10; 'x' is not a number above 0\."),
    ],
)
def test_a_label_that_cannot_be_built_is_refused_by_name(label, sentence):
    with pytest.raises(ValueError, match=sentence):
        field_variants.field_variant(label, PLANE)


@pytest.mark.parametrize("label", ["multires", "dense", "hash", "positional", "siren"])
def test_a_budget_that_is_too_small_names_the_variant(label):
    with pytest.raises(
        ValueError, match=rf"the variant '{label}' cannot be built: the smallest field of this kind has"
    ):
        field_variants.field_variant(label, PLANE._replace(parameters=1))


@pytest.mark.parametrize("parameters", [9000, 36000, 500_000])
@pytest.mark.parametrize("label", ["permutohedral", "k-planes", "tensorf"])
def test_planes_and_simplices_use_the_budget(label, parameters):
    budget = Budget(axes=3, outputs=1, parameters=parameters, finest=64, coarsest=8, levels=8)
    variant = field_variants.field_variant(label, budget)
    assert 0.85 * parameters < variant.field().parameter_count <= parameters
    if label == "permutohedral":
        grid = field_variants.field_variant("multires", budget)
        assert [round(1 / scale) for scale in variant.options["scales"]] == grid.options["resolutions"]
    with pytest.raises(ValueError, match=f"the variant '{label}' cannot be built: the smallest field of this kind"):
        field_variants.field_variant(label, budget._replace(parameters=1))


def test_tensorf_needs_three_axes():
    with pytest.raises(ValueError, match=r"TensoRF has planes and lines of 3 axes; a position has 2\. Use permutohed"):
        field_variants.field_variant("tensorf", PLANE)


def test_a_scheme_of_the_right_axes_is_built_as_it_is_written():
    assert field_variants.field_variant("MultiResolutionGrid(axes=2, table_size=64)", PLANE).options["table_size"] == 64
    assert (
        field_variants.field_variant("MultiResolutionGrid(table_size=64)", PLANE._replace(axes=3))
        .field()
        .scheme.claims.axes
        == 3
    )


@pytest.mark.parametrize("text", ["ALiBi", "ALiBi(heads=4)", "RoPE"])
def test_a_scheme_without_an_embedding_is_refused_before_its_arguments_are_asked_for(text):
    with pytest.raises(
        ValueError, match=r"a field reads an embedding of its coordinates, and .* acts at .*FourierFeat"
    ):
        field_variants.field_variant(text, PLANE)
