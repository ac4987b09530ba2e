"""Model whose weights the runs of a study store: how it is built again, and what it reads and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from posenc.positions import Positions
from posenc.workbench.runs import RunSpec
from posenc.workbench.storage.store import Store
from posenc.workbench.storage.stored import Stored, StoreError


class Classes(NamedTuple):
    """Classes of a model, and a function that classifies one item of the user.

    Attributes:
        names: Names of the classes, in the order of the logits.
        classify: Maps a path, or the data itself, to the name of its class.
        reading: How an item is read, as plain JSON.
    """

    names: tuple[str, ...]
    classify: Callable[[Any], str]
    reading: Mapping[str, Any]


class Codec(NamedTuple):
    """Encoder and decoder of the tokens of a text.

    Attributes:
        encode: Maps a string to token numbers ``(N,)``.
        decode: Maps token numbers ``(N,)`` to a string.
    """

    encode: Callable[[str], Tensor]
    decode: Callable[[Tensor | Sequence[int]], str]


class BuiltModel(NamedTuple):
    """An untrained model, and the positions of its tokens.

    Attributes:
        model: The model, on the CPU.
        positions: Positions of its tokens if all inputs have the same; None otherwise.

    Example:
        >>> from torch import nn
        >>> from posenc.workbench import BuiltModel
        >>> BuiltModel(nn.Linear(2, 3)).positions is None
        True
    """

    model: nn.Module
    positions: Positions | None = None


class ColoredMesh(NamedTuple):
    """A triangle mesh.

    Attributes:
        vertices: ``(V, 3)`` coordinates.
        faces: ``(F, 3)`` numbers of vertices, counterclockwise from outside.
        colors: ``(V, 3)`` uint8 red, green and blue of the vertices; None without colors.
    """

    vertices: np.ndarray
    faces: np.ndarray
    colors: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """Model whose weights the runs of a study store. ``posenc.load`` builds it again and loads its weights.

    Attributes:
        build: Maps a run and the root of its store to the untrained model. It runs with the seed of the run.
        convention: Maps a run to sentences on the input and the output of its model: order of the axes, units, ranges.
        metrics: Metric that chooses the best run of a page: its stored name to "max" or "min". The first that a run of
            the page has counts.
        example: Maps a run to an example of the only input of its model, whose first axis may have any size: for ONNX.
            None if the model has several inputs.
        picture: Maps the loaded model and the longest side in pixels (None for that of the fitted image) to bytes
            ``(H, W, C)``; None for a model that is no image.
        surface: Maps the loaded model, the root of its store and the lattice points per axis (None for those of the
            study) to a mesh; None for a model without a surface. It raises ValueError if there is no surface.
        classes: Maps the loaded model, its run and its store to its classes; None for a model that does not classify.
        codec: Maps a run and the root of its store to the encoder and decoder of its text; None for a model, or for a
            run, without a text.
        film: Maps the loaded model, the root of its store and the side in pixels (None for that of a page) to the
            frames of an animation, bytes ``(F, H, W, 3)``; None for a model without one.

    Example:
        >>> from torch import nn
        >>> from posenc.workbench import BuiltModel, StoredModel
        >>> stored = StoredModel(
        ...     build=lambda spec, root: BuiltModel(nn.Linear(2, 3)),
        ...     convention=lambda spec: "Input: positions (N, 2). Output: colors (N, 3).",
        ...     metrics={"psnr": "max"},
        ... )
        >>> stored.build(None, None).model
        Linear(in_features=2, out_features=3, bias=True)
    """

    build: Callable[[RunSpec, Path], BuiltModel]
    convention: Callable[[RunSpec], str]
    metrics: Mapping[str, Literal["max", "min"]]
    example: Callable[[RunSpec], Tensor] | None = None
    picture: Callable[[nn.Module, int | None], np.ndarray] | None = None
    surface: Callable[[nn.Module, Path, int | None], ColoredMesh] | None = None
    classes: Callable[[nn.Module, RunSpec, Store], Classes] | None = None
    codec: Callable[[RunSpec, Path], Codec | None] | None = None
    film: Callable[[nn.Module, Path, int | None], np.ndarray] | None = None


def trained_module(declared: StoredModel, store: Store, stored: Stored) -> nn.Module:
    """Build the model of a run and load its weights. The random state of the caller does not change.

    Args:
        declared: The stored model of its study.
        store: The store.
        stored: The run.

    Returns:
        The module in evaluation mode, with the attributes ``convention``, ``run_spec`` and, if all inputs have the same
        positions, ``positions``; a model that classifies has ``classes``, ``classify`` and ``reading``, and a
        model of a text ``encode`` and ``decode``.

    Raises:
        StoreError: The run has no weights, is damaged, or has the weights of another version of the model.
        ValueError: The store lacks data from which the model is built.
    """
    spec, weights = stored.spec, stored.weights
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        model, positions = declared.build(spec, store.root)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise StoreError(
            f"the weights of {spec.study}, {spec.variant}, seed {spec.seed}, are of another version of the model "
            f"({reason}). Train it again: the same posenc run command with --retrain-changed."
        ) from None
    attributes: dict[str, Any] = {"convention": declared.convention(spec), "run_spec": spec}
    if positions is not None:
        attributes["positions"] = positions
    if declared.classes is not None:
        names, classify, reading = declared.classes(model, spec, store)
        attributes |= {"classes": names, "classify": classify, "reading": reading}
    if declared.codec is not None and (codec := declared.codec(spec, store.root)) is not None:
        attributes |= codec._asdict()
    for name, value in attributes.items():
        setattr(model, name, value)
    return model.eval()
