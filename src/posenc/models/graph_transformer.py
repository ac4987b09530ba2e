"""Graph transformer: attention over all nodes, messages along edges, or both, with a positional encoding of the nodes.

    z = W x + e
    z <- z + V_2 gelu(V_1 [LN z_n, sum_j LN z_j]),   j over the neighbors of n          (messages)
    z <- z + a(LN z),   z <- z + W_2 gelu(W_1 LN z)                                     (attention, pre-norm)
    answer of a graph = W_h LN [mean_n z_n, max_n z_n, log N];   answer of a node = W_h LN z_n

Here x are features of a node that its neighbors and its number have no part in, and e the scheme's rows, if the
scheme embeds: normalized over the nodes of a batch (batch norm), because rows of similar graphs differ little, and
projected to the model width. Attention without messages reads the edges through the scheme alone. Messages
without attention are a message-passing network, GIN with a hidden layer (arXiv 1810.00826). Both together are a layer
as in GPS (arXiv 2205.12454), one after the other.

Graphs of a batch are padded. Tokens without a position (``placed=False``) are padding: no token attends to them, and
the answer of a graph does not include them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from posenc.graph_batch import GraphBatch
from posenc.models.embedding_scale import embedding_scale, initial_rows
from posenc.models.sites import PreparedScheme, refuse_width, without_repetition
from posenc.models.vision_block import Block, BlockConfig
from posenc.positions import Positions
from posenc.scheme import Scheme

Readout = Literal["graph", "node"]
"""Subject of an answer: the whole graph, or each node."""


class GraphConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Configuration of a graph transformer, without its scheme.

    Attributes:
        channels: number of features of a node.
        outputs: numbers of an answer: classes, or predicted values.
        dim: model width.
        depth: number of layers.
        heads: number of attention heads.
        hidden: width of the hidden layers.
        readout: "graph" for one answer of a graph, "node" for one of each node.
        attention: whether nodes attend to all nodes of their graph.
        messages: whether nodes read the sum of their neighbors.
    """

    channels: int
    outputs: int
    dim: int
    depth: int
    heads: int
    hidden: int
    readout: Readout = "graph"
    attention: bool = True
    messages: bool = False

    def __post_init__(self) -> None:
        if min(self.channels, self.outputs, self.dim, self.depth, self.heads, self.hidden) < 1:
            raise ValueError(f"a graph transformer needs sizes of at least 1 each; got {self}.")
        if self.dim % self.heads:
            raise ValueError(
                f"{self.heads} heads do not divide a width of {self.dim}; every head gets dim / heads channels. "
                f"Use a number of heads that divides {self.dim}."
            )
        if not (self.attention or self.messages):
            raise ValueError("a layer has attention, messages or both; got neither. Use attention=True.")

    def scheme_arguments(self, axes: int, nodes: int) -> dict[str, Any]:
        """Return the constructor arguments of a scheme that follow from the model, for ``scheme_text.build``.

        Args:
            axes: number of coordinates of a node.
            nodes: number of rows of a table of node numbers or degrees.

        Returns:
            Arguments by name.
        """
        return {
            "dim": self.dim,
            "heads": self.heads,
            "head_dim": self.dim // self.heads,
            "axes": axes,
            "max_len": nodes,
            "max_distance": 20,
            "npos_max": nodes,
            "extent": float(nodes),
        }


class Messages(nn.Module):
    """One step of message passing: a two-layer network of a node and the sum of its neighbors.

    With the same weights it is PyTorch Geometric's ``GraphConv`` with a gelu and a linear layer (a test compares them).
    It is code of posenc, so that a run has the same result whether PyTorch Geometric is installed or not.

    Args:
        dim: model width.
        hidden: width of the hidden layer.
    """

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(2 * dim, hidden), nn.Linear(hidden, dim)

    def forward(self, z: Float[Tensor, "B N dim"], graph: GraphBatch) -> Float[Tensor, "B N dim"]:
        """Add to each node what it reads from its neighbors.

        Args:
            z: tokens ``(B, N, dim)``.
            graph: the edges.

        Returns:
            Tokens ``(B, N, dim)``.
        """
        x, (to, source) = self.norm(z), graph.edge_index
        sample = torch.zeros_like(to) if graph.edge_sample is None else graph.edge_sample
        rows, width = x.flatten(0, 1), z.shape[1]
        summed = torch.zeros_like(rows).index_add(0, sample * width + to, rows[sample * width + source])
        return z + self.down(functional.gelu(self.up(torch.cat([x, summed.view_as(x)], -1))))


class GraphTransformer(nn.Module):
    """Graph transformer from features ``(B, N, channels)`` of nodes to one answer of each graph or of each node.

    Args:
        config: sizes.
        schemes: a factory ``layer -> Scheme``; returning the same scheme shares it. Embedding rows of the first layer's
            scheme are added at the input, after a linear layer. Without attention only embedding rows have an effect.

    Raises:
        ValueError: a scheme for another head width.
    """

    def __init__(self, config: GraphConfig, schemes: Callable[[int], Scheme]) -> None:
        super().__init__()
        self.config, dim, depth = config, config.dim, config.depth
        self.tokens = nn.Linear(config.channels, dim)
        block = BlockConfig(dim=dim, heads=config.heads, hidden=config.hidden)
        self.messages = nn.ModuleList(Messages(dim, config.hidden) for _ in range(depth if config.messages else 0))
        self.blocks = nn.ModuleList(Block(block) for _ in range(depth if config.attention else 0))
        width = 2 * dim if config.readout == "graph" else dim
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width + (config.readout == "graph"), config.outputs)
        made = [schemes(layer) for layer in range(depth)]
        for scheme in made:
            refuse_width(scheme, dim=dim, head_dim=dim // config.heads, model="graph transformer", projects=True)
        unique, self.scheme_of = without_repetition(made)
        self.schemes = nn.ModuleList(unique)
        first = made[0]
        embeds = "embed" in first.claims.sites
        self.rows = nn.Linear(first.out_dim, dim) if embeds else None
        self.rows_norm = nn.BatchNorm1d(first.out_dim) if embeds else None

    def forward(self, x: Float[Tensor, "B N channels"], pos: Positions) -> Tensor:
        """Compute the answers. Another numbering of the nodes only renumbers them, if the scheme allows it.

        Args:
            x: features ``(B, N, channels)``.
            pos: positions of the nodes with their graphs, as ``posenc.graphs`` makes them.

        Returns:
            ``(B, outputs)``, or ``(B, N, outputs)`` with the readout "node".

        Raises:
            ValueError: another number of features or positions, or positions without graphs.
        """
        if x.shape[-1] != self.config.channels or pos.count != x.shape[1]:
            raise ValueError(
                f"this model reads {self.config.channels} features of each node; got {tuple(x.shape)} with {pos.count} "
                f"positions. Build it with channels={x.shape[-1]}, and give every node a position."
            )
        if pos.graph is None:
            raise ValueError("this model reads the edges of graphs, and these positions have none: posenc.graphs(..)")
        schemes: list[Any] = list(self.schemes)
        at = [PreparedScheme.at(scheme, pos, None) for scheme in schemes]
        z = self.tokens(x)
        if self.rows is not None:
            first = at[self.scheme_of[0]]
            z = z + self.rows(self._normalized(first.scheme.embed(first.queries).to(z.dtype), pos.placed))
        mask = None if pos.placed is None else torch.atleast_2d(pos.placed)[:, None, None]
        for layer in range(self.config.depth):
            if self.config.messages:
                z = self.messages[layer](z, pos.graph)
            if self.config.attention:
                z = self.blocks[layer](z, at[self.scheme_of[layer]], (1, z.shape[1]), mask=mask)
        return self.head(self.norm(z)) if self.config.readout == "node" else self._answer(z, pos.placed)

    def _normalized(self, rows: Tensor, placed: Tensor | None) -> Tensor:
        """Rows ``(B, N, width)`` less their mean over nodes, over their standard deviation; 0 for padding."""
        assert self.rows_norm is not None
        nodes = torch.ones_like(rows[..., 0], dtype=torch.bool) if placed is None else placed.expand(rows.shape[:-1])
        return torch.zeros_like(rows).index_put((nodes,), self.rows_norm(rows[nodes]))

    def _answer(self, z: Tensor, placed: Tensor | None) -> Tensor:
        """Answer ``(B, outputs)`` of each graph from its nodes, without padding."""
        nodes = torch.ones_like(z[..., 0], dtype=torch.bool) if placed is None else placed.expand(z.shape[:-1])
        count, nodes = nodes.sum(1, keepdim=True), nodes[..., None]
        mean = z.masked_fill(~nodes, 0).sum(1) / count
        pooled = torch.cat([mean, z.masked_fill(~nodes, -torch.inf).amax(1)], -1)
        return self.head(torch.cat([self.norm(pooled), count.to(z.dtype).log()], -1))

    @torch.no_grad()
    def embedding_scale(self, x: Float[Tensor, "B N channels"], pos: Positions) -> float | None:
        """Measure the size of the embedding rows beside that of the nodes' tokens.

        Args:
            x: features ``(B, N, channels)``.
            pos: positions of the nodes.

        Returns:
            Root mean square of the rows over that of the tokens; None if no rows are added.
        """
        schemes: list[Any] = list(self.schemes)
        rows = initial_rows(schemes[self.scheme_of[0]], pos)
        if rows is None or self.rows is None:
            return None
        rows, tokens = rows.to(self.rows.weight.dtype).expand(*x.shape[:2], -1), self.tokens(x)
        if pos.placed is not None:
            placed = pos.placed.expand(tokens.shape[:-1])
            rows, tokens = rows[placed], tokens[placed]
        rows = functional.batch_norm(rows.flatten(0, -2), None, None, training=True)
        return embedding_scale(self.rows(rows), tokens)
