"""Another scheme in a model of ours that is built or trained already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

from torch import nn

from posenc.layers import layers
from posenc.scheme import Scheme


@runtime_checkable
class Placing(Protocol):
    """A model that takes its schemes from a factory ``layer -> scheme``, as ``posenc.models.encoder.Encoder``."""

    def place(self, schemes: Callable[[int], Scheme]) -> None: ...


Model = TypeVar("Model", bound=nn.Module)


def swap(model: Model, schemes: Scheme | Callable[[int], Scheme]) -> Model:
    """A model of ours gets other schemes, on its device and in its dtype; its other weights stay, under their names.

    schemes: one for all layers, or what such a model is built with, a function ``layer -> scheme``. What cannot be kept
    is what the old schemes had learned, even where the new ones have parameters of the same name; and an optimiser that
    was made before trains the old ones. Raises ValueError for a model that takes no schemes, and, with the model as it
    was, for schemes that do not fit it.
    """
    if not isinstance(model, Placing):
        raise ValueError(
            f"{type(model).__name__} takes no schemes by `place`, as posenc.models.encoder.Encoder does. For models of "
            "other libraries see the rest of posenc.adapt."
        )
    weight = next(model.parameters())
    make = layers(schemes) if isinstance(schemes, Scheme) else schemes
    model.place(lambda layer: make(layer).to(weight.device, weight.dtype))
    return model
