"""The theory of grid cells, drawn: Figs. 1 to 3 and eqs. 1 to 15 of Li et al. 2024, arXiv 2406.07049, version 2.

Every number is of ``posenc.measure.grid_cells``.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from torch import Tensor

from posenc.kernels import simplex
from posenc.measure import grid_cells
from posenc.report.lines import Points, lines
from posenc.report.matrices import matrices
from posenc.report.page import Block, Panel, Table, Text
from posenc.report.rows import number

PAPER = "arXiv:2406.07049"
AXES = (1, 2, 3)
TOKENS = 14
"""A side of the picture on which a simplex scheme's default waves are laid over the unit square."""


def panels() -> list[Panel]:
    return [hexagons(), interference(), fields(), economy(), widths(), random_waves(), surfaces(), profiles()]


def hexagons() -> Panel:
    """Fig. 1: three plane waves and their sum."""
    line = torch.linspace(-2, 2, 61, dtype=torch.float64)
    points = torch.stack(torch.meshgrid(line, line, indexing="ij"), -1)
    waves = 2 * math.pi * simplex.directions(2)
    maps = [(f"wave at {120 * i} degrees", grid_cells.firing(points, waves[i : i + 1])) for i in range(3)]
    maps.append(("their sum", grid_cells.firing_map(4.0, 61, wavelength=1.0)))
    return matrices(
        [(name, found.numpy()) for name, found in maps],
        title="Three waves make a hexagonal firing map",
        caption="Fig. 1, eqs. 3 and 4: cos(k · x) on a square of four wavelengths, and the sum over three directions. "
        "Its maxima, of height 3, are 2 / √3 wavelengths apart; its minima are −3/2.",
        shared_scale=False,
        low_label="lowest",
        high_label="highest",
        size="small",
    )


def interference() -> Panel:
    """Eqs. 1 to 4 along a walk."""
    times = torch.linspace(0, 2, 161, dtype=torch.float64)
    heading = torch.tensor([math.cos(math.pi / 6), math.sin(math.pi / 6)], dtype=torch.float64)
    path = 2 * times[:, None] * heading
    waves = 2 * math.pi * simplex.directions(2)
    together = grid_cells.oscillator_phases(path, times, waves).cos().sum(-1)
    envelope = torch.exp(1j * (path @ waves.mT)).sum(-1).abs()
    return lines(
        {"three oscillators": _curve(times, together), "envelope": _curve(times, envelope)},
        title="Oscillators beat where the cell fires",
        x_label="seconds of walking",
        y_label="activation",
        bounds=(-3.0, 3.0),
        caption="Eqs. 1 to 4: three oscillators at 8 Hz whose rate changes with the speed along their directions, on a "
        "straight walk of two wavelengths a second through neighbouring fields. The envelope |Σ exp(j k · x)| depends "
        "on the place alone.",
    )


def fields() -> Panel:
    """Fig. 2: how many fields of the finer module lie within one field."""
    sizes = [0.1 * step for step in range(1, 31)]
    inside = {}
    for size in sizes:
        inside[size] = {0: float(grid_cells.fields_against_periods([1.0, 4.0], [0.5, size])[0].inside)}
    drawn = lines(
        {"finer fields": inside},
        title="A field against the finer period",
        x_label="diameter of a field, in periods of the finer module",
        y_label="finer fields inside",
        bounds=(0.0, 4.0),
        caption="Fig. 2: up to one period a field tells the finer module's fields apart; beyond, a place is ambiguous. "
        "That is l_i ≤ λ_{i−1}, from which the economy of scales follows.",
    )
    r = math.exp(1 / 2)
    periods = [r**i for i in range(4)]
    body = []
    for part in (1.0, 1.2):
        for row in grid_cells.fields_against_periods(periods, [part * period / r for period in periods]):
            cells = (row.period, row.field, row.finer_period)
            body.append((*(number(cell, 3) for cell in cells), str(row.inside), "yes" if row.ambiguous else "no"))
    columns = ("Period", "Field", "Finer period", "Finer fields inside", "Ambiguous")
    return _with(
        drawn, Table("Modules a factor √e apart, with fields as wide as allowed, then wider", columns, tuple(body))
    )


def economy() -> Panel:
    """Eqs. 9 to 11 and 15."""
    ratios = torch.linspace(1.15, 3.5, 95, dtype=torch.float64).tolist()
    drawn = lines(
        {_axes(p): {r: {0: grid_cells.cells(r**p, math.e)} for r in ratios} for p in AXES},
        title="The ratio of scales with the fewest cells",
        x_label="ratio r of neighbouring scales",
        y_label="cells N / (d ln R)",
        bounds=(0.0, 12.0),
        caption="Eqs. 9 to 11: N = d ρ log_ρ R with ρ = r^P. It is least at ρ = e, which is r = e^(1/P).",
    )
    body = tuple(
        (_axes(row.axes), number(row.rho, 4), number(row.ratio, 4), number(row.width, 2))
        for row in grid_cells.economy(AXES)
    )
    columns = ("Space", "Best ρ", "Best ratio e^(1/P)", "Least width for base 10000 (eq. 15)")
    return _with(drawn, Table("What the economy asks for", columns, body))


def widths() -> Panel:
    """Eqs. 12 to 15, and a misprint."""
    wide = [round(16 * 2 ** (step / 8)) for step in range(49)]
    series: dict[str, Points] = {"10000^(2/d)": {float(d): {0: grid_cells.ratio_at_width(d)} for d in wide}}
    for row in grid_cells.economy(AXES):
        series[f"e^(1/{row.axes})"] = {float(d): {0: row.ratio} for d in (wide[0], wide[-1])}
    drawn = lines(
        series,
        title="The ratio of scales against the width",
        x_label="width d",
        y_label="ratio",
        bounds=(1.0, 3.25),
        log_x=True,
        caption="Eqs. 12 to 15: what neighbouring scales of the sinusoidal encoding differ by; below e^(1/P) from "
        + ", ".join(f"d = {number(row.width, 2)} (P = {row.axes})" for row in grid_cells.economy(AXES))
        + ".",
    )
    at_128, at_512 = (number(grid_cells.ratio_at_width(d), digits) for d, digits in ((128, 3), (512, 4)))
    told = f"At width 128 it is {at_128}; the paper prints 1.457. At 512 it is {at_512}, printed as 1.036."
    return dataclasses.replace(drawn, blocks=(Text((told,)), *drawn.blocks))


def random_waves() -> Panel:
    """Eqs. 5 to 8: random Fourier features."""
    displacement = torch.tensor([[0.1, 0.0], [0.3, 0.4], [1.0, -1.0]], dtype=torch.float64)
    counts = [4**step for step in range(1, 7)]

    def ring(count: int, generator: torch.Generator) -> Tensor:
        angle = 2 * math.pi * torch.rand(count, generator=generator, dtype=torch.float64)
        return 5 * torch.stack([angle.cos(), angle.sin()], -1)

    def normal(count: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, 2, generator=generator, dtype=torch.float64)

    cases = {
        "normal waves": (normal, lambda d: torch.exp(-d.square().sum(-1) / 2)),
        "one length, any direction": (ring, lambda d: torch.special.bessel_j0(5 * d.norm(dim=-1))),
    }
    series: dict[str, Points] = {}
    for name, (draw, limit) in cases.items():
        found = grid_cells.kernel_convergence(draw, limit, displacement, counts)
        series[name] = {float(row.waves): {0: row.error * math.sqrt(row.waves)} for row in found}
    return lines(
        series,
        title="Random waves approach their kernel",
        x_label="waves D",
        y_label="error of the kernel × √D",
        bounds=(0.0, 0.8),
        log_x=True,
        caption="Eqs. 5 to 8: the mean of cos(k · d) over D random waves against the kernel of their distribution, a "
        "Gaussian and J₀; root mean square over three displacements and twenty draws, times √D. It stays level: the "
        "error falls as 1 / √D, four times the waves for half of it.",
    )


def surfaces() -> Panel:
    """Fig. 3, left."""
    return matrices(
        [(name, found.surface.numpy()) for name, found in _likeness().items()],
        title="Inner products with the core of the unit square",
        caption="Fig. 3: 64 layers of three waves; 1 at the core (0.5, 0.5). First the waves of the released code, "
        "|ω_k| = 200^(k/64), wave by wave, as eq. 6 has it; then the inner product of the sums of eq. 17, whose cross "
        f"terms make it no function of the offset; then the economic ladder, from 4 to {TOKENS} tokens of {TOKENS}.",
        low_label="lowest",
        high_label="highest",
        size="small",
    )


def profiles() -> Panel:
    """Fig. 3, right."""
    return lines(
        {name: _curve(found.line, found.profile) for name, found in _likeness().items()},
        title="Inner products along x = 0.5",
        x_label="y",
        y_label="inner product",
        bounds=None,
        caption="Fig. 3: the profile of the surfaces above.",
    )


def _likeness() -> dict[str, grid_cells.Likeness]:
    released = simplex.Released(64, 64, 1, 0, frozen=True)()[0]
    c = torch.tensor([complex(*parts) for parts in simplex.RELEASED], dtype=torch.complex128)
    ladder = simplex.ladder(2, shortest=4 / TOKENS, extent=1.0)
    return {
        "released waves": grid_cells.likeness_with_core(released, c.abs().square()),
        "their sums": grid_cells.summed_likeness_with_core(released, c),
        "economic ladder": grid_cells.likeness_with_core(simplex.wave_vectors(64, 2, ladder, 0)),
    }


def _curve(x: Tensor, y: Tensor) -> Points:
    return {round(across, 6): {0: up} for across, up in zip(x.tolist(), y.tolist(), strict=True)}


def _axes(count: int) -> str:
    return f"{count} axis" if count == 1 else f"{count} axes"


def _with(panel: Panel, block: Block) -> Panel:
    return dataclasses.replace(panel, blocks=(*panel.blocks, block))
