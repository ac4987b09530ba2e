"""Published losses of models that rotate queries, keys, values or outputs."""

from __future__ import annotations

from collections.abc import Mapping

SOURCE = "Su 2025, kexue.fm/archives/10862"
LOSSES: Mapping[str, float] = {
    "rope": 2.712,
    "qkvo-rope": 2.719,
    "k-rope": 2.769,
    "vo-rope": 2.770,
    "qkv-rope": 2.783,
    "nope": 2.795,
    "o-rope": 2.841,
    "q-rope": 2.851,
    "v-rope": 2.856,
}
"""Loss by encoding, as printed: one run each of a model like Llama with 10^9 parameters."""
TIED_LOSSES: Mapping[str, float] = {**LOSSES, "vo-rope": LOSSES["k-rope"]}
"""The same with a tie of "k-rope" and "vo-rope", which differ by 0.001; for rank correlations."""
