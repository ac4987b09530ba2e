"""Cosine similarity of positions: sinusoidal encodings of a sequence, spherical encodings of pixels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from posenc.lookup.scheme_text import build, parse
from posenc.positions import grid, sequence
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.page import Panel, Table
from posenc.workbench.studies.sc_pe import variants
from posenc.workbench.studies.shared.page_data import PageData

TOKENS, WIDTHS, DROPOUT = 10, (4, 2048), 0.1
"""Parameters of the note's Fig. 1."""
SIDE = 28
"""Pixels per side of the grid whose encodings are compared."""


class TokenSimilarity(NamedTuple):
    """Cosine similarity ``(10, 10)`` of ten tokens by the sinusoid of a width.

    Attributes:
        width: The width.
        encoding: Similarity of the encoding alone.
        computed: Similarity as the note computed it, with noise and dropout.
    """

    width: int
    encoding: np.ndarray
    computed: np.ndarray


def cosine_similarity(x: torch.Tensor) -> np.ndarray:
    """Cosine similarity ``(N, N)`` of vectors ``(N, d)``."""
    unit = torch.nn.functional.normalize(x.double(), dim=-1)
    return (unit @ unit.mT).numpy()


def token_similarity(width: int, seed: int = 0) -> TokenSimilarity:
    """Fig. 1 of the note. Its code adds normal noise of SD 1 to the encoding, then sets a tenth of all values to 0."""
    scheme = build(parse("Sinusoid"), {"dim": width})
    table = scheme.embed(scheme.prepare(sequence(TOKENS)))
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(TOKENS, width, generator=generator) + table
    dropout_mask = torch.rand(TOKENS, width, generator=generator) >= DROPOUT
    return TokenSimilarity(width, cosine_similarity(table), cosine_similarity(x * dropout_mask / (1 - DROPOUT)))


def similarity(data: PageData) -> list[Panel]:
    """Similarity of ten tokens by the sinusoid, and of pixels by spherical encodings. Needs no run."""
    return [_token_maps(), _pixel_maps()]


def _token_maps() -> Panel:
    by_width = [token_similarity(width) for width in WIDTHS]
    groups = [
        (f"{kind}, width {each.width}", matrix)
        for each in by_width
        for kind, matrix in (("encoding alone", each.encoding), ("with noise and dropout", each.computed))
    ]
    wide = by_width[-1]
    near, far = (f"{wide.encoding[0, distance]:.3f}" for distance in (1, TOKENS - 1))
    noisy_near, noisy_far = (float(np.diagonal(wide.computed, distance).mean()) for distance in (1, TOKENS - 1))
    return heat_maps(
        groups,
        title="Cosine similarity of ten tokens: sinusoid",
        caption=(
            "The note concludes from its heat maps that the similarity falls very fast with the distance. The "
            f"similarity of the encoding alone does not: at width {wide.width} it is {near} for neighbors and {far} "
            "for the two ends. The note's maps are of the encoding plus normal noise of SD 1, after dropout, which "
            f"leaves {noisy_near:.2f} and {noisy_far:.2f}."
        ),
        shared_scale=False,
        columns=2,
        size="small",
    )


def _pixel_maps() -> Panel:
    """Similarity of a pixel in the middle to all others, and of diagonal and horizontal neighbors."""
    pos, middle = grid(SIDE, SIDE), (SIDE // 2) * SIDE + SIDE // 2
    groups, body = [], []
    for label, sphere in variants.SPHERES.items():
        scheme = build(parse(sphere.bare), {"n": SIDE})
        vectors = scheme.embed(scheme.prepare(pos))
        table = cosine_similarity(vectors)
        groups.append((label, table[middle].reshape(SIDE, SIDE)))
        falling, rising = table[0, SIDE + 1], table[1, SIDE]  # The note counts from 1.
        neighbors = [table[row * SIDE, row * SIDE + 1] for row in (0, SIDE // 2, SIDE - 1)]
        cells = (f"{each:.6f}" for each in (falling, rising, *neighbors))
        body.append((label, *cells, str(distinct_count(vectors))))
    panel = heat_maps(
        groups,
        title="Cosine similarity of pixels: spherical encodings",
        shared_scale=False,
        size="small",
        caption=f"Cosine similarity of each pixel of a {SIDE} x {SIDE} grid with a pixel in the middle.",
    )
    columns = (
        "Encoding",
        "(1,1) and (2,2)",
        "(1,2) and (2,1)",
        "Neighbors in row 0",
        f"Neighbors in row {SIDE // 2}",
        f"Neighbors in row {SIDE - 1}",
        f"Distinct vectors (of {SIDE * SIDE})",
    )
    note = (
        "The note states one flaw of its encoding: its two diagonals have equal similarity. A second flaw is that the "
        "similarity of neighbors grows from row to row. The encoding shear corrects the first flaw, torus both."
    )
    table = Table("Similarity of neighboring pixels", columns, tuple(body), note)
    return Panel(panel.title, (*panel.blocks, table), panel.caption)


def distinct_count(vectors: torch.Tensor) -> int:
    """Number of vectors that differ in the sixth decimal."""
    return len(np.unique(vectors.double().numpy().round(6) + 0.0, axis=0))
