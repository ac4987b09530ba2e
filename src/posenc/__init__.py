"""posenc: every way of telling a network where things are.

    from posenc import RoPE, attention, sequence
    out = attention(q, k, v, scheme=RoPE(64), q_pos=sequence(4096))

Schemes are found by walking ``posenc.schemes`` when one is first asked for; nothing lists them.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from posenc.attention import attend, attention, attention_weights
from posenc.positions import Positions, as_positions, graph, grid, sequence, sphere
from posenc.scheme import Claims, Scheme
from posenc.version import __version__

if TYPE_CHECKING:
    from posenc.contract import check

__all__ = [
    "Claims",
    "Positions",
    "Scheme",
    "__version__",
    "as_positions",
    "attend",
    "attention",
    "attention_weights",
    "check",
    "graph",
    "grid",
    "sequence",
    "sphere",
]


def __getattr__(name: str) -> Any:
    if name == "check":
        return importlib.import_module("posenc.contract").check
    if name[:1].isupper():
        found = importlib.import_module("posenc.schemes").catalogue()
        if name in found:
            return found[name]
    elif not name.startswith("_") and find_spec(f"posenc.{name}"):  # a module, as posenc.frequencies
        return importlib.import_module(f"posenc.{name}")
    raise AttributeError(f"posenc has no {name!r}; posenc list shows its schemes.")


def __dir__() -> list[str]:
    return sorted([*__all__, *importlib.import_module("posenc.schemes").catalogue()])
