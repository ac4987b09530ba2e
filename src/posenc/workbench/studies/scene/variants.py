"""The encodings of the scene study: those of all studies of fields, and two of them with a smaller network.

gaussian-SIGMA-small | none-small     Fourier features or bare coordinates with the network of the grids
"""

from __future__ import annotations

import msgspec

from posenc.models.field import FieldConfig
from posenc.workbench.studies.shared import field_variants
from posenc.workbench.studies.shared.field_variants import Budget, FieldVariant

FOURIER = "gaussian-2"
"""Fourier features. Sigma, in cycles per side of the cube, was the best of a few on the torus in the quick preset."""
SMALL = "-small"
SMALL_DIM = 96
VARIANTS = ("none", FOURIER, "none" + SMALL, FOURIER + SMALL, "dense", "hash", "multires")
CURVES = tuple(label for label in VARIANTS if label != "none" + SMALL)
"""Variants in the plot of PSNR by training time."""
MORE_VARIANTS = ("positional", "gaussian-4")
SIGMAS = (1.0, 2.0, 4.0, 8.0)
BY_SIGMA = {f"gaussian-{sigma:g}": sigma for sigma in SIGMAS}
CYCLES = 32
"""Highest frequency of the positional mapping in cycles per side of the cube: 100 pixels can show about 43."""


def variant(label: str, budget: Budget) -> FieldVariant:
    """The encoding of a label with its network. A grid has one hidden layer, as the density network of instant-ngp.

    Args:
        label: Label of a variant, or a scheme of the catalog as text.
        budget: Sizes that all variants share.

    Returns:
        The encoding with its network.

    Raises:
        ValueError: An unknown label, with the nearest name; or the budget is too small.
    """
    if label.lower() == "positional":
        budget = budget._replace(finest=min(budget.finest, CYCLES))
    if not label.endswith(SMALL):
        encoding = field_variants.field_variant(label, budget)
        is_grid = encoding.network.depth == FieldConfig(outputs=1).depth
        network = msgspec.structs.replace(encoding.network, depth=1) if is_grid else encoding.network
        return msgspec.structs.replace(encoding, network=network)
    wide = field_variants.field_variant(label.removesuffix(SMALL), budget)
    if "sigma" not in wide.options and wide.scheme != "Coordinates":
        raise ValueError(
            f"{label!r} names neither Fourier features nor bare coordinates, and only they have a small variant, such "
            f"as {FOURIER}{SMALL} or none{SMALL}."
        )
    options = {**wide.options, **({"dim": SMALL_DIM} if wide.options else {})}
    network = FieldConfig(outputs=budget.outputs, output=budget.output, depth=1)  # type: ignore[arg-type]
    return FieldVariant(scheme=wide.scheme, axes=budget.axes, options=options, network=network)
