"""Compatibility check of a scheme with a third-party model, before the model is changed."""

from __future__ import annotations

import torch
from torch import nn

from posenc.scheme import Scheme

STRANGE = (TypeError, AttributeError, KeyError, IndexError, RuntimeError, ValueError)
"""Errors that modules and functions of another kind of model may raise when they are called for a measurement."""


def device_of(scheme: Scheme) -> torch.device:
    """The device of a scheme's tensors; the CPU for a scheme without any."""
    return next((t.device for t in (*scheme.parameters(), *scheme.buffers())), torch.device("cpu"))


def refuse_no_model(model: object, caller: str) -> None:
    """Raise ValueError for what is no model, as None or the name of one.

    Args:
        model: The argument of a user.
        caller: Name of the function that takes it.

    Raises:
        ValueError: If it is no ``torch.nn.Module``.
    """
    if not isinstance(model, nn.Module):
        got = f"the class {model.__name__}" if isinstance(model, type) else repr(model)
        raise ValueError(f"{caller} takes a model that is built or loaded, a torch.nn.Module; got {got}.")


def refuse_no_values(model: nn.Module, caller: str) -> None:
    """Raise ValueError for a model on the device "meta", whose values are not there to be measured or copied.

    Args:
        model: The model.
        caller: Name of the function that takes it.

    Raises:
        ValueError: If a parameter is on that device.
    """
    if any(each.is_meta for each in model.parameters()):
        raise ValueError(
            f'{caller} reads values of the model, and it is on the device "meta", which has none. Load its weights '
            "first."
        )


def refuse_sites(
    scheme: Scheme,
    can: set[str],
    what: str,
    remedy: str = "Choose another scheme: posenc list",
    example: str = "NoPE() or RoPE(64)",
) -> None:
    """Raise ValueError if a scheme acts at a site that a third-party model does not support.

    Args:
        scheme: The scheme to put into the model.
        can: Sites that the model supports.
        what: First clause of the error, which describes how the model uses positions.
        remedy: Last sentence of the error, without its full stop.
        example: A scheme that the function takes, for the error of another object.

    Raises:
        ValueError: If the scheme acts at another site, or is none.
    """
    if not isinstance(scheme, Scheme):
        got = f"the class {scheme.__name__}" if isinstance(scheme, type) else repr(scheme)
        raise ValueError(f"{what}, and takes a scheme such as {example}; got {got}.")
    beyond = sorted(set(scheme.claims.sites) - can)
    if beyond:
        raise ValueError(
            f"{what} and does nothing else with positions; {type(scheme).__name__} acts at {', '.join(beyond)} too, "
            f"which would be lost. {remedy}"
        )
