"""Variants of the graphs study: a positional encoding of the nodes, with attention, messages along edges, or both.

    none                                   attention without positions: the nodes are a set
    degree                                 a learned row for each number of edges
    laplacian | sign-net | spe             rows of 16 Laplacian eigenvectors, by three encodings
    rwse                                   rows of the return probabilities of walks of 1 to 16 steps
    distance                               a learned bias of the attention for each shortest-path length
    NAME + messages                        the same with attention and messages
    messages                               messages alone, without attention: message passing

Any scheme of the catalogue as text is a variant too, alone or with `` + messages``. A scheme of graphs reads its own
view of the nodes, another scheme the degree if it has one axis, else eigenvectors.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import torch

from posenc.lookup import scheme_text
from posenc.lookup.scheme_reference import split_view
from posenc.models.graph_transformer import GraphConfig, GraphTransformer
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.position_views import PositionView
from posenc.workbench.tasks import graphs as task

VIEWS = (
    PositionView("eigenvectors", None, "entries in the smoothest Laplacian eigenvectors, 16 at most"),
    PositionView("walks", None, "probabilities that a random walk is back after 1 to 16 steps, standardized"),
    PositionView("degree", 1, "number of edges, at most 63"),
    PositionView("hops", 1, "number of a node, with the shortest-path lengths of all pairs"),
)
"""Views of the positions."""
NONE, MESSAGES = "none", "messages"
WITH_MESSAGES = " + messages"
"""Ending of a variant with attention and messages."""
ENCODINGS = {
    NONE: ("NoPE", "degree"),
    "degree": ("Learned", "degree"),
    "laplacian": ("Laplacian", "eigenvectors"),
    "sign-net": ("SignNet", "eigenvectors"),
    "spe": ("SPE", "eigenvectors"),
    "rwse": ("RWSE", "walks"),
    "distance": ("GraphDistance", "hops"),
}
"""Label to its scheme and view."""
COMBINED = (NONE, "laplacian", "spe", "rwse", "distance")
"""Encodings that are trained with attention and messages too."""
VARIANTS = (*ENCODINGS, MESSAGES, *(f"{label}{WITH_MESSAGES}" for label in COMBINED))
BASELINES = task.BASELINES
_ENCODED = {
    NONE: "no position",
    "degree": "a learned row for each number of edges",
    "laplacian": "16 Laplacian eigenvectors in a linear map (Laplacian)",
    "sign-net": "16 Laplacian eigenvectors in a network that no sign changes (SignNet)",
    "spe": "16 Laplacian eigenvectors in a network that no sign or basis changes (SPE)",
    "rwse": "return probabilities of walks of 1 to 16 steps in a linear map (RWSE)",
    "distance": "a learned bias of the attention for each shortest-path length (GraphDistance)",
}
MEANINGS = {
    **{label: f"{said}; nodes attend to all nodes of their graph" for label, said in _ENCODED.items()},
    MESSAGES: "messages along the edges, without attention and without an encoding",
    **{
        f"{label}{WITH_MESSAGES}": f"{_ENCODED[label]}; attention to all nodes and messages along the edges"
        for label in COMBINED
    },
    "degrees": "baseline: gradient boosting on counts of degrees and node labels; for the nodes of one graph on their "
    "degree, and the smallest, mean and largest degree of their neighbors",
    "wl": "baseline: gradient boosting on counts of the colors of the Weisfeiler-Lehman test",
}
"""Variant to its encoding and the parts of its layers, for the table of names on a page."""
FREE_AXES = 2
"""Eigenvectors that a scheme reads which takes any number of axes and is not for graphs."""


class GraphVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A scheme with its options, the view that it reads, and the parts of a layer. Field names are stored.

    Attributes:
        scheme: Name of the scheme.
        options: Its options.
        view: Positions that it reads.
        axes: Number of coordinates that it reads, the first ones of the view.
        attention: True if nodes attend to all nodes.
        messages: True if nodes read their neighbors.
    """

    scheme: str
    options: dict[str, Any]
    view: task.NodeView
    axes: int
    attention: bool = True
    messages: bool = False

    def config(self, sizes: GraphConfig) -> GraphConfig:
        """The configuration of a model with the parts of this variant."""
        return msgspec.structs.replace(sizes, attention=self.attention, messages=self.messages)

    def model(self, config: GraphConfig, nodes: int) -> GraphTransformer:
        """The untrained model for graphs of some number of nodes. Raises ValueError if the scheme does not fit it."""
        chosen = scheme_text.Specification(self.scheme, self.options)
        known = config.scheme_arguments(self.axes, max(nodes, task.MOST_DEGREE + 1))
        return GraphTransformer(config, scheme_text.per_layer(chosen, known))


def variant(label: str, config: GraphConfig, nodes: int) -> tuple[GraphVariant, GraphConfig]:
    """The variant of a label, and the configuration of its model.

    Args:
        label: One of the labels above, or a scheme as text, alone or with a view, as ``Learned@degree``.
        config: Sizes of the model.
        nodes: Number of nodes of the largest graph.

    Returns:
        The variant and the configuration.

    Raises:
        ValueError: The label is unknown (the message names the nearest one), or the scheme cannot read a view.
    """
    if label == MESSAGES:
        made = GraphVariant(scheme="NoPE", options={}, view="degree", axes=1, attention=False, messages=True)
        return made, made.config(config)
    text, messages = label.removesuffix(WITH_MESSAGES), label.endswith(WITH_MESSAGES)
    if text in ENCODINGS:
        scheme, own = ENCODINGS[text]
        chosen: task.NodeView = own  # type: ignore[assignment]  # the views of ENCODINGS are names of views
        made = GraphVariant(scheme=scheme, options={}, view=chosen, axes=task.AXES[chosen], messages=messages)
        return made, made.config(config)
    name, view = split_view(text)
    position_views.refuse_view(view, VIEWS)
    parsed = scheme_text.parse_variant(name, label, (*VARIANTS, *BASELINES))
    try:
        made = _of_scheme(parsed, view, config, nodes)
        made = msgspec.structs.replace(made, messages=messages)
        _try(made, made.config(config), nodes)
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"the variant {label!r} cannot be built: {error}") from None
    return made, made.config(config)


def _of_scheme(parsed: scheme_text.Specification, asked: str, config: GraphConfig, nodes: int) -> GraphVariant:
    """A variant of a scheme of the catalogue or of the user, with the view that it can read."""
    kind = scheme_text.find(parsed.scheme)
    own: Any = asked or kind.graph_view
    axes = task.AXES[own] if own in task.AXES and kind.graph_view == own else FREE_AXES
    made = GraphVariant(scheme=parsed.scheme, options=parsed.options, view=own or "eigenvectors", axes=axes)
    schemes: list[Any] = list(made.model(config, nodes).schemes)
    reads = {scheme.claims.axes for scheme in schemes} - {None}
    if len(reads) > 1:
        raise ValueError("its layers read different numbers of axes.")
    count: int = next(iter(reads), min(FREE_AXES, task.AXES.get(own, FREE_AXES)))
    view: task.NodeView = own or ("degree" if count == 1 else "eigenvectors")
    if count > task.AXES[view]:
        raise ValueError(
            f"it reads {count} axes, and the view {view} has {task.AXES[view]}. {position_views.listed(VIEWS)}"
        )
    tables = any(scheme.claims.range is not None for scheme in schemes)
    if tables and view in ("eigenvectors", "walks"):
        raise ValueError(f"it reads the rows of a table, and coordinates of the view {view} are real numbers.")
    return msgspec.structs.replace(made, view=view, axes=count)


def _try(made: GraphVariant, config: GraphConfig, nodes: int) -> None:
    """Raise an error for a scheme that cannot read its view."""
    few = task.distances([5, 4], seed=(0, 0))
    batches = task.GraphBatches(few, made.view, task.view_arrays(few, made.view), np.arange(2))
    _, pos = batches.batch(torch.arange(2), made.axes)
    with torch.no_grad(), torch.random.fork_rng():
        made.model(config, nodes)(torch.zeros(2, 5, config.channels), pos)
