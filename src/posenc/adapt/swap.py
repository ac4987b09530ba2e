"""Replace the scheme of a posenc model that is already built or trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from torch import nn

from posenc.adapt.compatibility import refuse_no_model
from posenc.models.layers import layers
from posenc.scheme import Scheme


@runtime_checkable
class SchemeHost(Protocol):
    """A model whose method ``place`` sets its schemes, such as ``posenc.models.encoder.Encoder``."""

    def place(self, schemes: Callable[[int], Scheme]) -> None:
        """Set the scheme of every layer.

        Args:
            schemes: A function ``layer -> Scheme``.
        """


Model = TypeVar("Model", bound=nn.Module)


def swap(model: Model, schemes: Scheme | Callable[[int], Scheme]) -> Model:
    """Replace the schemes of a posenc model. The other weights stay, under their names.

    The new schemes take the device and dtype of the model. They do not take over learned parameters of the old ones,
    also where names agree. Build a new optimizer afterwards: an old one still trains the old parameters.

    Args:
        model: A model with a method ``place``, such as ``posenc.models.encoder.Encoder``.
        schemes: One scheme that all layers share, or a function ``layer -> scheme``.

    Returns:
        The same model.

    Raises:
        ValueError: If the model has no method ``place``, or a scheme does not fit it. The model is then unchanged.

    Example:
        >>> from posenc import NoPE, RoPE
        >>> from posenc.adapt import swap
        >>> from posenc.models.encoder import Encoder, EncoderConfig
        >>> config = EncoderConfig(channels=3, classes=2, dim=16, depth=1, hidden=32, heads=2)
        >>> model = swap(Encoder(config, lambda layer: NoPE()), RoPE(8))
    """
    refuse_no_model(model, "swap")
    if not isinstance(model, SchemeHost):
        raise ValueError(
            f"{type(model).__name__} has no method `place`, which sets the schemes of a posenc model. For models of "
            "other libraries use the other functions of posenc.adapt."
        )
    weight = next(model.parameters())
    make = layers(schemes)
    model.place(lambda layer: make(layer).to(weight.device, weight.dtype))
    return model
