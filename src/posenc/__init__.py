"""Positional encodings for PyTorch: a library of schemes and the attention that uses them.

    from posenc import RoPE, attention, sequence
    out = attention(q, k, v, scheme=RoPE(64), q_pos=sequence(4096))

A public name is loaded at its first use, so ``import posenc`` alone does not load torch. The schemes are found by
walking ``posenc.schemes``; nothing lists them.
"""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from posenc.lookup.moved import MOVED
from posenc.lookup.name_suggestion import nearest_names
from posenc.version import __version__ as __version__

EXPORTS = {
    "attention": ("attend", "attention", "attention_weights"),
    "contract": ("check",),
    "contract.model_check": ("check_model",),
    "graph_batch": ("GraphBatch",),
    "graph_data.builders": ("graph", "graphs"),
    "graph_data.edges": ("Graph", "as_graph"),
    "length_rope": ("LengthRoPE",),
    "multimodal_positions": ("multimodal", "video_rope"),
    "positions": ("Positions", "as_positions", "grid", "sequence", "sphere"),
    "scheme": ("Claims", "Scheme"),
    "segment_positions": ("segments",),
    "timestamps": ("times",),
    "workbench.model_loading": ("load",),
}
"""The public names of each module, besides the schemes. ``load`` alone loads the workbench, at its first use."""
MODULES = ("adapt", "frequencies", "measure", "models", "schemes")
"""The public modules."""
_MODULE_OF = {name: f"posenc.{module}" for module, names in EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(["__version__", *_MODULE_OF, *MODULES, *_schemes()])
    if name in _MODULE_OF:
        return getattr(importlib.import_module(_MODULE_OF[name]), name)
    if f"posenc.{name}" in MOVED:
        raise AttributeError(f"posenc.{name} is now {MOVED[f'posenc.{name}']}")
    if name[:1].isupper() and name in (schemes := _schemes()):
        return schemes[name]
    if not name.startswith("_") and find_spec(f"posenc.{name}"):  # a module, as posenc.frequencies
        return importlib.import_module(f"posenc.{name}")
    raise AttributeError(f"posenc has no {name!r}.{_hint(name)} posenc list shows its schemes.")


def __dir__() -> list[str]:
    return __getattr__("__all__")


def _schemes() -> dict[str, Any]:
    return importlib.import_module("posenc.schemes").catalogue()


def _hint(name: str) -> str:
    """The nearest public names; those of schemes where the name may be one, because they load torch."""
    if name.startswith("_"):
        return ""
    known = [*_MODULE_OF, *MODULES, *(_schemes() if name[:1].isupper() or "torch" in sys.modules else ())]
    near = nearest_names(name, known)
    return f" Did you mean {' or '.join(f'posenc.{each}' for each in near)}?" if near else ""


class _Package(ModuleType):
    """The package posenc. Importing ``posenc.attention`` does not hide the function of the same name."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
