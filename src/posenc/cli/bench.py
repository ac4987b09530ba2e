"""``bench``: what encodings cost on this machine."""

from __future__ import annotations

from tyro.conf import Positional

from posenc.cli.terminal import console, refuse_device


def bench(
    names: Positional[tuple[str, ...]],
    tokens: int = 1024,
    heads: int = 8,
    head_dim: int = 64,
    batch: int = 1,
    device: str = "cpu",
) -> int:
    """Time of encodings on this machine, each beside attention without positions in the same rounds.

    An encoding is timed only if its code agrees with its definition on its declared examples. Ratios travel
    between machines, seconds do not.

    Try:

    posenc bench rope shaw "Sinusoid(dim=512)"

    posenc bench rope --tokens 4096 --device cuda

    Args:
        names: Names of posenc list, with options where you want others than the defaults.
        tokens: How many.
        heads: Of queries and of keys.
        head_dim: Channels a head.
        batch: Samples.
        device: cpu, cuda, cuda:1.
    """
    from rich.table import Table

    from posenc import specification
    from posenc.contract import check
    from posenc.measure.cost import cost, places, way

    if not names:
        raise ValueError("nothing was named. Write posenc bench rope shaw, or see posenc list.")
    refuse_device(device)
    known = {"dim": heads * head_dim, "head_dim": head_dim, "heads": heads, "max_len": tokens,
             "max_distance": min(tokens - 1, 128)}  # fmt: skip
    table = Table("encoding", "what", "ms", "± ms", "times the floor", "floor ms", box=None)
    for name in names:
        scheme = specification.build(specification.parse(name), known)
        gate = check(type(scheme), family="definition")
        if not gate.ok:
            raise ValueError(f"{name} is not timed: its code and its definition disagree. {gate.failures[0].trouble}")
        for row in cost(scheme, places(scheme, tokens).to(device), batch=batch, heads=heads, head_dim=head_dim):
            table.add_row(name, row["what"], *(f"{row[c]:.3f}" for c in ("milliseconds", "spread")),
                          f"{row['ratio']:.2f}", f"{row['floor']:.3f}")  # fmt: skip
        console().print(f"{name}: attention goes by {way(scheme)}", highlight=False)
    console().print(table)
    return 0
