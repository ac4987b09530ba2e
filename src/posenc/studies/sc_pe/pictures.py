"""Pictures of the spherical study: how alike positions are, and what pixels times rows look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from posenc.positions import grid, sequence
from posenc.report.matrices import matrices
from posenc.report.page import Block, Panel, Table, Text
from posenc.report.pixels import album
from posenc.specification import build, parse
from posenc.studies.classified_panels import accuracies, empty, pictures_of, there
from posenc.studies.found import Found
from posenc.studies.picture_sets import kept
from posenc.studies.sc_pe import rows
from posenc.studies.sc_pe.drawing import TITLES

TOKENS, WIDTHS, DROPPED = 10, (4, 2048), 0.1
"""Of the note's Fig. 1."""
SIDE = 28
SHOWN, GAP = 3, 2
"""Pictures that are shown multiplied, and pixels between them."""
NEVER_SHOWN = "caltech"
"""A set whose photographs no page shows: people are in them."""


class Similar(NamedTuple):
    """Cosine similarity between ten tokens with the sinusoid of a width: of the rows, and as the note computed it."""

    width: int
    pure: np.ndarray
    computed: np.ndarray


def cosines(x: torch.Tensor) -> np.ndarray:
    """``(N, N)`` of rows ``(N, d)``."""
    unit = torch.nn.functional.normalize(x.double(), dim=-1)
    return (unit @ unit.mT).numpy()


def similar(width: int, seed: int = 0) -> Similar:
    """Fig. 1 of the note. Its code adds normal noise of deviation 1 to the rows, then drops a tenth of all numbers."""
    scheme = build(parse("Sinusoid"), {"dim": width})
    table = scheme.embed(scheme.prepare(sequence(TOKENS)))
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(TOKENS, width, generator=drawn) + table
    stays = torch.rand(TOKENS, width, generator=drawn) >= DROPPED
    return Similar(width, cosines(table), cosines(x * stays / (1 - DROPPED)))


def similarity(found: Found) -> list[Panel]:
    """Fig. 1, and how alike the spherical rows of pixels are."""
    of_widths = [similar(width) for width in WIDTHS]
    groups = [(f"{kind}, width {each.width}", matrix) for each in of_widths
              for kind, matrix in (("rows alone", each.pure), ("with noise and dropout", each.computed))]  # fmt: skip
    wide = of_widths[-1]
    near, far = (f"{wide.pure[0, d]:.3f}" for d in (1, TOKENS - 1))
    noisy = [float(np.diagonal(wide.computed, d).mean()) for d in (1, TOKENS - 1)]
    of_ten = matrices(
        groups,
        title="How alike ten tokens are",
        caption=(
            f"The note read from its heat maps that the sinusoid's similarity falls very fast. Of the rows alone it "
            f"does not: at width {wide.width} neighbours have {near} and the ends {far}. The maps were drawn of noise "
            f"of deviation 1 plus the rows, after dropout, which leaves {noisy[0]:.2f} and {noisy[1]:.2f}."
        ),
        shared_scale=False,
        rows_of=2,
        size="small",
    )
    return [of_ten, _of_pixels()]


def _of_pixels() -> Panel:
    """How alike a pixel in the middle is to all others."""
    schemes = {label: build(parse(scheme), {"n": SIDE}) for label, scheme in rows.SPHERES.items()}
    pos, middle = grid(SIDE, SIDE), (SIDE // 2) * SIDE + SIDE // 2
    groups, body = [], []
    for name, scheme in schemes.items():
        vectors = scheme.embed(scheme.prepare(pos))
        table = cosines(vectors)
        groups.append((name, table[middle].reshape(SIDE, SIDE)))
        falling, rising = table[0, SIDE + 1], table[1, SIDE]  # the note counts from 1
        rows_of = [table[r * SIDE, r * SIDE + 1] for r in (0, SIDE // 2, SIDE - 1)]
        body.append((name, *(f"{each:.6f}" for each in (falling, rising, *rows_of)), str(distinct(vectors))))
    panel = matrices(
        groups,
        title="How alike pixels are",
        shared_scale=False,
        size="small",
        caption=f"Cosine similarity of every pixel of {SIDE} x {SIDE} with one in the middle.",
    )
    columns = ("Rows", "(1,1) and (2,2)", "(1,2) and (2,1)", "Neighbours in row 0", f"in row {SIDE // 2}",
               f"in row {SIDE - 1}", f"Different vectors of {SIDE * SIDE}")  # fmt: skip
    note = (
        "The flaw that the note names is that its two diagonals are equally alike. It has another: neighbours grow "
        "more alike downwards. Shear mends the first, torus both."
    )
    table = Table("What the note's flaw is", columns, tuple(body), note)
    return Panel(panel.title, (*panel.blocks, table), panel.caption)


def distinct(vectors: torch.Tensor) -> int:
    """How many rows differ, to the sixth decimal."""
    return len(np.unique(vectors.double().numpy().round(6) + 0.0, axis=0))


def over(found: Found) -> list[Panel]:
    """Fig. 4: accuracies, and what a multiplied picture looks like."""
    panels = [
        accuracies(found, rows.OVER, setting, f"Times the pixels{TITLES[setting]}")
        for setting in there(found, list(TITLES))
    ]
    return [*(panels or empty("Times the pixels")), *_multiplied(found)]


def _multiplied(found: Found) -> list[Panel]:
    """Pictures before and after their pixels are multiplied, by the first seed of each row."""
    numbers = {label: arrays["over"] for label in rows.OVER if "over" in (arrays := found.arrays("main", label))}
    if not numbers:
        return []
    x, why_not = _pictures(found)
    before = [] if x is None else [*x]
    shown = {label: _four([by[None], *(each * by for each in before)]) for label, by in numbers.items()}
    shown = {"pictures": _four([None, *before]), **shown} if before else shown
    key = (
        "First, held-out pictures as the network reads them. Then row by row: the number that each pixel is multiplied "
        "by (top left) and the pictures multiplied, each from its lowest value (black) to its highest (white). Trained "
        "weights of the first seed."
    )
    blocks: tuple[Block, ...] = (album(shown, key=key),)
    return [Panel("Pictures times rows", (*blocks, Text((why_not,))) if why_not else blocks)]


def _pictures(found: Found) -> tuple[np.ndarray | None, str]:
    """A few held-out pictures ``(B, C, H, W)`` as networks read them, or why there are none."""
    pictures = pictures_of(found, "main")
    if NEVER_SHOWN in pictures.name.lower():
        return None, f"The photographs of {pictures.name} are not shown in pages."
    try:
        test = kept(found.store.root, pictures).test
    except ValueError as error:
        return None, f"The pictures themselves are not shown: {error}"
    return test.read(torch.arange(min(SHOWN, len(test)))).float().numpy() / 127.5 - 1, ""


def _bytes(x: np.ndarray) -> np.ndarray:
    """``(C, H, W)`` of any range to ``(H, W, C)`` uint8."""
    low, high = float(x.min()), float(x.max())
    scaled = (x - low) / (high - low) if high > low else np.full_like(x, 0.5)
    return np.rint(scaled * 255).astype(np.uint8).transpose(1, 2, 0)


def _four(tiles: Sequence[np.ndarray | None]) -> np.ndarray:
    """Pictures two by two with white between them; None leaves a place white."""
    first = next(tile for tile in tiles if tile is not None)
    white = np.full((*first.shape[1:], 3), 255, np.uint8)
    drawn = [white if tile is None else np.broadcast_to(_bytes(tile), white.shape) for tile in tiles]
    drawn += [white] * (4 - len(drawn))
    side = [np.concatenate([left, white[:, :GAP], right], 1) for left, right in (drawn[:2], drawn[2:])]
    return np.concatenate([side[0], np.full((GAP, *side[0].shape[1:]), 255, np.uint8), side[1]])
