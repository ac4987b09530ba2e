"""Theory of grid-cell encodings: Figs. 1 to 3 and eqs. 1 to 15 of Li et al. 2024, arXiv 2406.07049, version 2.

All values are computed by ``posenc.measure.grid_cells``.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

import posenc.frequencies as schedules  # `from posenc import frequencies` would import every scheme
from posenc.kernels import simplex
from posenc.measure import grid_cells
from posenc.workbench.report.heat_map import heat_maps
from posenc.workbench.report.line_plot import Points, line_plot
from posenc.workbench.report.number_format import number
from posenc.workbench.report.page import Block, Panel, Table, Text

PAPER = "arXiv:2406.07049"
AXES = (1, 2, 3)
TOKENS = 14
"""Tokens on one side of the image that a simplex scheme's default waves assume, scaled to the unit square."""


def panels() -> list[Panel]:
    """All panels of the paper, in its order."""
    return [hexagons(), interference(), fields(), economy(), widths(), random_waves(), surfaces(), profiles()]


def hexagons() -> Panel:
    """Fig. 1: three plane waves and their sum."""
    line = torch.linspace(-2, 2, 61, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    waves = 2 * math.pi * simplex.directions(2)
    maps = [(f"wave at {120 * i} degrees", grid_cells.firing(points, waves[i : i + 1])) for i in range(3)]
    maps.append(("sum of the waves", grid_cells.firing_map(4.0, 61, wavelength=1.0)))
    return heat_maps(
        [(name, cells.numpy()) for name, cells in maps],
        title="Hexagonal firing map of three plane waves",
        caption="Fig. 1, eqs. 3 and 4: cos(k · x) on a square of four wavelengths, and the sum over three directions. "
        "Its maxima are 3 and lie 2 / √3 wavelengths apart; its minima are −3/2.",
        shared_scale=False,
        low_label="minimum",
        high_label="maximum",
        size="small",
    )


def interference() -> Panel:
    """Eqs. 1 to 4: interference of three oscillators along a straight path."""
    times = torch.linspace(0, 2, 161, dtype=torch.float64)
    heading = torch.tensor([math.cos(math.pi / 6), math.sin(math.pi / 6)], dtype=torch.float64)
    path = 2 * times[:, None] * heading
    waves = 2 * math.pi * simplex.directions(2)
    activation = grid_cells.oscillator_phases(path, times, waves).cos().sum(-1)
    envelope = torch.exp(1j * (path @ waves.mT)).sum(-1).abs()
    return line_plot(
        {"three oscillators": _curve(times, activation), "envelope": _curve(times, envelope)},
        title="Oscillatory interference along a path",
        x_label="time (s)",
        y_label="activation (sum of cosines)",
        bounds=(-3.0, 3.0),
        caption="Eqs. 1 to 4: three oscillators at 8 Hz. The frequency of each changes with the speed along its "
        "direction. The path is straight, at two wavelengths per second, through neighboring firing fields. The "
        "envelope |Σ exp(j k · x)| depends on the position alone.",
    )


def fields() -> Panel:
    """Fig. 2: number of firing fields of the finer module within one firing field."""
    sizes = [0.1 * step for step in range(1, 31)]
    inside = {}
    for size in sizes:
        inside[size] = {0: float(grid_cells.fields_against_periods([1.0, 4.0], [0.5, size])[0].inside)}
    panel = line_plot(
        {"finer fields": inside},
        title="Number of finer firing fields within one firing field",
        x_label="field diameter (periods of the finer module)",
        y_label="number of finer fields",
        bounds=(0.0, 4.0),
        caption="Fig. 2: a field of at most one finer period contains one field of the finer module; a larger field "
        "makes the position ambiguous. This gives l_i ≤ λ_{i−1}, from which the optimal scale ratio follows.",
    )
    r = math.exp(1 / 2)
    periods = [r**i for i in range(4)]
    body = []
    for part in (1.0, 1.2):
        for row in grid_cells.fields_against_periods(periods, [part * period / r for period in periods]):
            cells = (row.period, row.field, row.finer_period)
            body.append((*(number(cell, 3) for cell in cells), str(row.inside), "yes" if row.ambiguous else "no"))
    columns = ("Period λ_i", "Field diameter l_i", "Finer period λ_{i−1}", "Finer fields inside", "Ambiguous")
    return _append_block(
        panel,
        Table(
            "Modules with scale ratio √e: fields of the largest allowed diameter, then 1.2 times wider",
            columns,
            tuple(body),
        ),
    )


def economy() -> Panel:
    """Eqs. 9 to 11 and 15: number of cells by scale ratio."""
    ratios = torch.linspace(1.15, 3.5, 95, dtype=torch.float64).tolist()
    panel = line_plot(
        {_axes(p): {r: {0: grid_cells.cells(r**p, math.e)} for r in ratios} for p in AXES},
        title="Number of cells by scale ratio",
        x_label="ratio r of neighboring scales",
        y_label="cells N / (d ln R)",
        bounds=(0.0, 12.0),
        caption="Eqs. 9 to 11: N = d ρ log_ρ R with ρ = r^P. The minimum is at ρ = e, which is r = e^(1/P).",
    )
    body = tuple(
        (_axes(row.axes), number(row.rho, 4), number(row.ratio, 4), number(row.width, 2))
        for row in grid_cells.economy(AXES)
    )
    columns = ("Axes P", "Optimal ρ", "Optimal ratio e^(1/P)", "Minimum width for base 10,000 (eq. 15)")
    return _append_block(panel, Table("Optimal scale ratio", columns, body))


def widths() -> Panel:
    """Eqs. 12 to 15: scale ratio of the sinusoidal encoding by width, and a misprint of the paper."""
    wide = [round(16 * 2 ** (step / 8)) for step in range(49)]
    series: dict[str, Points] = {"10000^(2/d)": {float(d): {0: grid_cells.ratio_at_width(d)} for d in wide}}
    for row in grid_cells.economy(AXES):
        series[f"e^(1/{row.axes})"] = {float(d): {0: row.ratio} for d in (wide[0], wide[-1])}
    panel = line_plot(
        series,
        title="Scale ratio by encoding width",
        x_label="width d (channels)",
        y_label="ratio of neighboring scales",
        bounds=(1.0, 3.25),
        log_x=True,
        caption="Eqs. 12 to 15: ratio of neighboring scales of the sinusoidal encoding. It is below e^(1/P) from "
        + ", ".join(f"d = {number(row.width, 2)} (P = {row.axes})" for row in grid_cells.economy(AXES))
        + ".",
    )
    at_128, at_512 = (number(grid_cells.ratio_at_width(d), digits) for d, digits in ((128, 3), (512, 4)))
    misprint = (
        f"The ratio is {at_128} at width 128, where the paper prints 1.457, and {at_512} at 512, printed as 1.036."
    )
    return dataclasses.replace(panel, blocks=(Text((misprint,)), *panel.blocks))


def random_waves() -> Panel:
    """Eqs. 5 to 8: convergence of random Fourier features."""
    displacement = torch.tensor([[0.1, 0.0], [0.3, 0.4], [1.0, -1.0]], dtype=torch.float64)
    counts = [4**step for step in range(1, 7)]

    def ring(count: int, generator: torch.Generator) -> Tensor:
        angle = 2 * math.pi * torch.rand(count, generator=generator, dtype=torch.float64)
        return 5 * torch.stack([angle.cos(), angle.sin()], -1)

    def normal(count: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, 2, generator=generator, dtype=torch.float64)

    cases = {
        "Gaussian wave vectors": (normal, lambda d: torch.exp(-d.square().sum(-1) / 2)),
        "wave vectors of one length": (ring, lambda d: torch.special.bessel_j0(5 * d.norm(dim=-1))),
    }
    series: dict[str, Points] = {}
    for name, (draw, limit) in cases.items():
        convergence = grid_cells.kernel_convergence(draw, limit, displacement, counts)
        series[name] = {float(row.waves): {0: row.error * math.sqrt(row.waves)} for row in convergence}
    return line_plot(
        series,
        title="Convergence of random Fourier features",
        x_label="number of waves D",
        y_label="kernel error × √D",
        bounds=(0.0, 0.8),
        log_x=True,
        caption="Eqs. 5 to 8: root mean square difference between the mean of cos(k · d) over D random waves and the "
        "kernel of their distribution (a Gaussian, and J₀), over three displacements and twenty draws, times √D. The "
        "product is constant, so the error decreases as 1 / √D.",
    )


def surfaces() -> Panel:
    """Fig. 3, left: inner products over the unit square."""
    return heat_maps(
        [(name, product.surface.numpy()) for name, product in _inner_products().items()],
        title="Inner products with the center of the unit square",
        caption="Fig. 3: 64 scales of three waves, normalized to 1 at the center (0.5, 0.5). First: the waves of the "
        "released code, |ω_k| = 200^(k/64), with the inner product taken wave by wave (eq. 6). Second: the inner "
        "product of the sums of eq. 17; its cross terms depend on more than the offset. Third: scales with the optimal "
        f"ratio, with wavelengths from 4 to {TOKENS} tokens on a side of {TOKENS} tokens.",
        low_label="minimum",
        high_label="maximum",
        size="small",
    )


def profiles() -> Panel:
    """Fig. 3, right: inner products along one line."""
    return line_plot(
        {name: _curve(product.line, product.profile) for name, product in _inner_products().items()},
        title="Inner products along x = 0.5",
        x_label="y (sides of the unit square)",
        y_label="inner product (normalized to 1 at the center)",
        bounds=None,
        caption="Fig. 3: profiles of the surfaces above along x = 0.5.",
    )


def _inner_products() -> dict[str, grid_cells.InnerProducts]:
    released = simplex.Released(64, 64, 1, 0, frozen=True)()[0]
    c = torch.tensor([complex(*parts) for parts in simplex.RELEASED], dtype=torch.complex128)
    ladder = schedules.economy(axes=2, shortest=4 / TOKENS, extent=1.0)
    return {
        "released waves": grid_cells.inner_products_with_core(released, c.abs().square()),
        "sums of the released waves": grid_cells.summed_inner_products_with_core(released, c),
        "optimal scale ratio": grid_cells.inner_products_with_core(simplex.wave_vectors(64, 2, ladder, 0)),
    }


def _curve(x: Tensor, y: Tensor) -> Points:
    return {round(across, 6): {0: up} for across, up in zip(x.tolist(), y.tolist(), strict=True)}


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _append_block(panel: Panel, block: Block) -> Panel:
    return dataclasses.replace(panel, blocks=(*panel.blocks, block))
