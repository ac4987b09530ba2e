"""Write a rotary embedding into a transformers configuration, so that a saved model is loaded with it."""

from __future__ import annotations

import math
import warnings
from typing import Any, Protocol, runtime_checkable

import torch

from posenc.adapt.configuration_keys import TRAINED_LENGTH, value_of
from posenc.frequencies import geometric
from posenc.scheme import Scheme

BASES = ("rope_theta", "rotary_emb_base")
"""Keys beside the dictionary of the rotation that state the base too."""


@runtime_checkable
class Rotation(Protocol):
    """A scheme that rotates pairs of channels by fixed frequencies, as RoPE does.

    Attributes:
        theta: Angular frequency of each pair in radians per token.
        attention_factor: Factor on q and on k.
        head_dim: Number of channels that rotate.
        of: Width of a head.
    """

    theta: tuple[float, ...]
    attention_factor: float
    head_dim: int
    of: int


def describable(scheme: object) -> bool:
    """True for a rotation by frequencies above 0, which a configuration of transformers can describe."""
    return isinstance(scheme, Rotation) and all(0 < each < math.inf for each in scheme.theta)


def write_rotation(config: Any, scheme: Scheme, length: int | None) -> None:
    """Write a rotation into a configuration.

    Plain frequencies become ``"rope_type": "default"`` with their base. Other frequencies become ``"longrope"``, whose
    factors ``lambda_i = base^(-i / n) / theta_i`` are the same for short and for long texts, with the attention factor.
    Both are read by transformers alone. A rotation that neither can express is left out, with a warning.

    Args:
        config: The configuration. It is changed in place; None, or one without a rotation, is left as it is.
        scheme: The rotation of the model.
        length: Length in tokens that the model is for; None for that of the configuration.
    """
    name = next((each for each in ("rope_parameters", "rope_scaling") if hasattr(config, each)), None)
    if name is None and not hasattr(config, "rope_theta"):
        return
    extended = value_of(config, "max_position_embeddings")
    trained = value_of(config, TRAINED_LENGTH) or (_inside(config).get(TRAINED_LENGTH)) or extended
    if not isinstance(scheme, Rotation) or not describable(scheme) or trained is None:
        _warn_of_no_entry(scheme)
        return
    wanted = _described(scheme, float(_inside(config).get("rope_theta") or _base(config)), int(trained))
    if scheme.of > scheme.head_dim or "partial_rotary_factor" in _inside(config):  # Phi3 reads it in any case
        wanted["partial_rotary_factor"] = scheme.head_dim / scheme.of
    further = dict.fromkeys(("short_mscale", "long_mscale"), float(scheme.attention_factor))  # PhiMoE wants them
    entry = name or "rope_scaling"
    read = next((each for each in (wanted, wanted | further) if _is_read(config, entry, each)), None)
    if read is None:
        _warn_of_no_entry(scheme)
        return
    for each in BASES:
        if getattr(config, each, None) is not None:
            setattr(config, each, read["rope_theta"])
    setattr(config, entry, read)
    if length is not None and length > (extended or 0):
        config.max_position_embeddings = length


def _warn_of_no_entry(scheme: Scheme) -> None:
    warnings.warn(
        f"the configuration of this model cannot describe its new {type(scheme).__name__}, so save_pretrained does not "
        "save it. Call llama(model, scheme) with the same scheme after from_pretrained.",
        UserWarning,
        stacklevel=4,
    )


def _is_read(config: Any, entry: str, rotation: dict[str, Any]) -> bool:
    """True if a configuration with this rotation passes the checks that its class makes of a file."""
    if not hasattr(config, "to_dict"):
        return True
    try:
        type(config).from_dict({**config.to_dict(), entry: dict(rotation)})
    except Exception:  # each class of transformers has checks of its own
        return False
    return True


def _described(rope: Rotation, base: float, trained: int) -> dict[str, Any]:
    """Parameters of a rotation in the format of transformers."""
    theta, count = torch.tensor(rope.theta, dtype=torch.float64), len(rope.theta)
    own = float(theta[-1] ** (-count / (count - 1))) if count > 1 and theta[-1] < 1 else base
    if rope.attention_factor == 1 and torch.allclose(theta, geometric(count, base=own), rtol=1e-12, atol=0):
        return {"rope_type": "default", "rope_theta": round(own, 6)}
    factors = (geometric(count, base=base) / theta).tolist()
    return {
        "rope_type": "longrope", "rope_theta": base, "short_factor": factors, "long_factor": factors,
        "attention_factor": float(rope.attention_factor), "factor": 1.0, TRAINED_LENGTH: trained,
    }  # fmt: skip


def _inside(config: Any) -> dict[str, Any]:
    return dict(value_of(config, "rope_parameters") or value_of(config, "rope_scaling") or {})


def _base(config: Any) -> float:
    return next((value for name in BASES if (value := value_of(config, name)) is not None), 10000.0)
