"""``posenc bench``: run time of encodings on this machine."""

from __future__ import annotations

from typing import Annotated

from posenc.cli.grammar import Positional, arg
from posenc.cli.terminal import console, refuse_device
from posenc.workbench import request_checks

MOST_OPERATIONS = {"cpu": 2e13, "cuda": 1e17}
"""Largest number of multiplications of one call of attention: minutes to an hour on such a device."""


def bench(
    names: Annotated[Positional[tuple[str, ...]], arg(names="scheme")],
    tokens: int = 1024,
    heads: int = 8,
    head_dim: int = 64,
    batch: int = 1,
    device: str = "cpu",
) -> int:
    """Measure the run time of encodings, next to attention without positions (the baseline).

    An encoding is timed only if its code agrees with its definition on its declared examples. Compare ratios between
    machines, not milliseconds.

    For example:

    posenc bench rope shaw "Sinusoid(dim=512)"

    posenc bench rope --tokens 4096 --device cuda

    posenc bench alibi my_scheme.py

    Args:
        names: Encodings by their name in posenc list, with constructor arguments if needed, and your own, as
            my_scheme.py or mypkg.bias:MyBias.
        tokens: Sequence length in tokens.
        heads: Number of attention heads.
        head_dim: Channels of one head.
        batch: Batch size.
        device: cpu, cuda or cuda:N.
    """
    if not names:
        raise ValueError("no encoding is named. Write posenc bench rope shaw, or see posenc list.")
    request_checks.refuse_device_name(device)
    _refuse_sizes(tokens, heads, head_dim, batch, device)
    from rich.table import Column, Table

    from posenc.contract import check
    from posenc.lookup import own_files, scheme_text
    from posenc.measure.run_time import backend_and_reason, consecutive_positions, cost

    refuse_device(device)
    defaults = {"dim": heads * head_dim, "head_dim": head_dim, "heads": heads, "max_len": tokens,
             "max_distance": min(tokens - 1, 128)}  # fmt: skip
    names_column = Column("encoding", no_wrap=True)  # The other columns give way.
    table = Table(
        names_column,
        Column("part", no_wrap=True),
        "time (ms)",
        "± (ms)",
        "ratio to baseline",
        "baseline (ms)",
        box=None,
    )
    for name in (each for given in names for each in own_files.texts_with_names(given)):
        scheme = scheme_text.build(scheme_text.parse(name), defaults)
        gate = check(type(scheme), family="definition")
        if not gate.ok:
            raise ValueError(f"{name} is not timed: its code and its definition disagree. {gate.failures[0].trouble}")
        for row in cost(
            scheme, consecutive_positions(scheme, tokens).to(device), batch=batch, heads=heads, head_dim=head_dim
        ):
            table.add_row(name, row["what"], *(f"{row[c]:.3f}" for c in ("milliseconds", "spread")),
                          f"{row['ratio']:.2f}", f"{row['floor']:.3f}")  # fmt: skip
        console().print(f"{name}: attention backend {backend_and_reason(scheme)}", highlight=False)
    console().print(table)
    return 0


def _refuse_sizes(tokens: int, heads: int, head_dim: int, batch: int, device: str) -> None:
    """Raise ValueError for sizes that are not sizes, or that would take hours or more memory than is free."""
    from posenc.workbench.memory import require_memory

    for flag, value in (("--tokens", tokens), ("--heads", heads), ("--head-dim", head_dim), ("--batch", batch)):
        if value < 1:
            raise ValueError(f"{flag} is a whole number of at least 1; got {value}. Leave it out for the default.")
    operations, most = 4 * batch * heads * head_dim * tokens**2, MOST_OPERATIONS.get(device.partition(":")[0], 2e13)
    if operations > most:
        raise ValueError(
            f"attention of {tokens:,} tokens, {heads:,} heads of {head_dim:,} channels and a batch of {batch:,} takes "
            f"{operations:.0e} multiplications a call; up to {most:.0e} are timed on {device}. Use fewer: --tokens 4096"
        )
    needed = 16 * 4 * batch * heads * head_dim * tokens  # queries, keys, values, outputs and their gradients, float32
    require_memory(needed if device == "cpu" else 0, f"timing {tokens:,} tokens", "Use fewer: --tokens 4096")
