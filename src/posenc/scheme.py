"""Scheme: the base class of positional encodings.

A scheme reads positions once per forward pass and then acts on the network at a few named sites.
``where = scheme.prepare(pos)`` computes everything that depends on positions alone.
``pair = scheme.relate(where_q, where_k)`` computes everything that depends on pairs of a query and a key. All layers
that share the scheme share both. The hooks of the sites read ``where`` or ``pair`` instead of positions. By default
a hook changes nothing.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import html
import inspect
import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, ParamSpec

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from posenc.claims import Claims as Claims
from posenc.claims import Interval, Read
from posenc.claims import Site as Site
from posenc.constructor_checks import checking_types, plain_arguments, state_signature
from posenc.graph_batch import GraphBatch
from posenc.positions import Positions, readable

Where = Any
"""The value that a scheme's ``prepare`` returns."""
Pair = Any
"""The value that a scheme's ``relate`` returns."""
STATE, STATE_VERSION = "posenc", 1
"""Key of posenc's entry in the metadata of a state_dict, and the version of its format."""

Args = ParamSpec("Args")
SHOWN = 60
"""Most characters of an argument in the text of a scheme."""
MAPPED = {"transform": (3, ("q", "k", "v", "o")), "rerotate": (4, ("k", "v"))}
"""Methods that map vectors at a site: the place of ``site`` among their arguments, and its values."""
SITE_WORDS = {"q": "queries", "k": "keys"}


class Head(int):
    """The number of a head, together with the number of heads.

    Attributes:
        count: Number of heads.
    """

    count: int

    @override
    def __new__(cls, number: int, count: int) -> Head:
        head = super().__new__(cls, number)
        head.count = count
        return head

    def among(self, own: int) -> int:
        """The number of the scheme's head that this head uses, with the rule of ``per_head``.

        Args:
            own: Number of heads that the scheme was built for; it divides ``count``.

        Returns:
            A number from 0 to ``own - 1``. Neighboring heads share one.
        """
        return self // (self.count // own)


@dataclasses.dataclass(frozen=True)
class At:
    """One query and one key of one head: the input of the scalar definitions of biases and masks.

    Attributes:
        q: All queries of the head, ``(Q, D)``, transformed and multiplied by the softmax scale.
        k: All keys of the head, ``(K, D)``, transformed.
        x: Input of the attention block at the keys, ``(K, dim)``, or None.
        attn_mask: Attention mask ``(Q, K)``, True where the query may attend to the key.
        q_pos: Positions of the queries, ``(Q, P)``, float64.
        k_pos: Positions of the keys, ``(K, P)``, float64.
        i: Index of the query.
        j: Index of the key.
        head: Number of the head.
        graph: The graph whose nodes the tokens are, or None.
        heads_q: Queries of all heads, ``(H, Q, D)``, scaled as ``q`` but not transformed, for a bias that reads all.
        heads_k: Keys of all heads, ``(H, K, D)``, not transformed.
    """

    q: Tensor
    k: Tensor
    x: Tensor | None
    attn_mask: Tensor
    q_pos: Tensor
    k_pos: Tensor
    i: int
    j: int
    head: Head
    graph: GraphBatch | None = None
    heads_q: Tensor | None = None
    heads_k: Tensor | None = None


def _refusing_other_sites(method: Callable[Args, Tensor]) -> Callable[Args, Tensor]:
    """A ``transform`` or ``rerotate`` that raises ValueError for a site that is not among its own."""
    number, sites = MAPPED[method.__name__]

    @functools.wraps(method)
    def checked(*positional: Args.args, **named: Args.kwargs) -> Tensor:
        site = positional[number] if len(positional) > number else named.get("site", sites[0])
        if site not in sites:
            raise ValueError(
                f"{type(positional[0]).__name__}.{method.__name__} takes site={' or '.join(map(repr, sites))}; got "
                f"{site!r}. Write {sites[0]!r} for {SITE_WORDS[sites[0]]}."
            )
        return method(*positional, **named)

    return checked


def _with_arguments(cls: Any, *positional: Any, **named: Any) -> Any:
    """A scheme before its constructor, which keeps the arguments of the constructor."""
    if len(positional) > 1 and all(isinstance(each, Scheme) for each in positional):
        first, *_ = inspect.signature(cls).parameters.values()
        if "Sequence" in str(first.annotation):
            names = ", ".join(f"{type(each).__name__}(..)" for each in positional)
            raise ValueError(
                f"{cls.__name__} takes its schemes as one list; got {len(positional)} arguments. Write "
                f"{cls.__name__}([{names}])."
            )
    scheme = nn.Module.__new__(cls)
    # a module takes no attribute before its constructor
    vars(scheme)["_arguments"] = plain_arguments(positional, named)
    return scheme


def _short(value: Any) -> str:
    """An argument in a few characters; "" for schemes, which are printed as parts."""
    listed = isinstance(value, list | tuple | dict)
    parts = list(value.values()) if isinstance(value, dict) else list(value) if listed else [value]
    if any(isinstance(each, nn.Module) for each in parts):
        return ""
    if (shape := getattr(value, "shape", None)) is not None:
        return f"{'tensor' if isinstance(value, Tensor) else type(value).__name__} of {tuple(shape)}"
    text = repr(value)
    if " at 0x" in text:  # such a text differs in each run
        return str(getattr(value, "__name__", type(value).__name__))
    return text if len(text) <= SHOWN else f"{type(value).__name__} of {len(value)}" if listed else "..."


class Scheme(nn.Module, abc.ABC):
    """Base class of positional encodings: an ``nn.Module`` that reads positions and acts at named sites of a network.

    A subclass sets ``self.claims`` in its constructor, lists ``examples``, and overrides ``prepare`` and the hooks of
    the sites that it claims. Beside each hook it writes the scalar definition ``define_*``: the paper's formula for
    one token or one pair, in float64, with loops if needed. ``posenc.check`` compares the two. Do not subclass a
    finished scheme.

    Attributes:
        claims: The properties that the contract measures. The constructor sets them.
        cite: BibTeX entry of the paper.
        examples: Constructor arguments of instances that the contract checks. Every option is in at least one.
        wide: Names of parameters that no cast makes narrower than float32, such as trained frequencies. In bfloat16
            a rounded frequency would be wrong by whole turns at large positions.
        built_as: Call that built the scheme from text, with every argument; "" for a scheme that Python built.
        shown: Call that ``posenc show`` draws, as text, for a scheme made of others. Empty for the defaults.
        conventions: Names of attributes that decide how the same weights are read. Loading a state_dict that was saved
            with other values raises ValueError.
        bias_reads: Inputs of ``bias`` that decide its values besides the pair. If empty, the layers that share the
            scheme compute its bias once.
        earlier_tokens: "read" for a scheme whose logits read every token before a key of its document, so that no mask
            may hide some of them; "hidden" for such a mask, as a window. None, the default, for other schemes.
        graph_reads: Fields of ``Positions.graph`` that the scheme needs: "hops" or "eigenvalues". Empty for a scheme
            that reads coordinates alone.
        graph_view: View of ``posenc.graph`` whose coordinates the scheme reads, which its errors name. None, the
            default, for other positions.
        exact: What a cache keeps exact when ``for_texts`` changes the frequencies of the text that it holds: "model"
            reads the text again, "keys" rotates the cached keys. None, the default, for a scheme whose map of a token
            does not depend on the length of the text.
        draws: Names of counter buffers, for a scheme that draws random numbers at every ``prepare``. Equal counts give
            equal draws.
        faults: Contract checks that the scheme is known to fail, because it reproduces released code, with the reason:
            ``{"state.some_check": "reason"}``. A check listed here must fail.

    Example:
        >>> from posenc import Claims, Scheme, check
        >>> class Ramp(Scheme):
        ...     examples = ({"dim": 4},)
        ...
        ...     def __init__(self, dim):
        ...         super().__init__()
        ...         self.dim = dim
        ...         self.claims = Claims(
        ...             translation="none", isometric=False, learned=False, range=None, axes=1,
        ...             sites=frozenset({"embed"}), sharing="model", cacheable=True,
        ...         )
        ...
        ...     @property
        ...     def out_dim(self):
        ...         return self.dim
        ...
        ...     def prepare(self, pos):
        ...         rows = self._take(pos).precise().to(pos.table_dtype).expand(*pos.coords.shape[:-1], self.dim)
        ...         return rows if pos.placed is None else rows * pos.placed[..., None]
        ...
        ...     def define_embed(self, p):
        ...         return p[0].expand(self.dim)
        >>> check(Ramp, family="definition").ok
        True
    """

    cite: ClassVar[str] = ""
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ()
    built_as: str = ""
    shown: ClassVar[str] = ""
    wide: ClassVar[frozenset[str]] = frozenset()
    conventions: ClassVar[tuple[str, ...]] = ()
    bias_reads: frozenset[Read] = frozenset({"q", "k", "kept"})
    earlier_tokens: ClassVar[Literal["read", "hidden"] | None] = None
    graph_reads: frozenset[Literal["hops", "eigenvalues"]] = frozenset()
    graph_view: ClassVar[Literal["eigenvectors", "walks", "hops"] | None] = None
    exact: Literal["model", "keys"] | None = None
    draws: tuple[str, ...] = ()
    faults: Mapping[str, str] = MappingProxyType({})
    claims: Claims
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    """Arguments of the constructor, from which an equal scheme can be made with new initial values."""

    if not TYPE_CHECKING:  # a type checker reads the signature of the constructor
        __new__ = _with_arguments

    def __init_subclass__(cls) -> None:
        """Let a subclass refuse wrong sites, at which most maps would return ``x``, and arguments of another type."""
        super().__init_subclass__()
        checked: dict[str, Any] = {"__init__": checking_types} | dict.fromkeys(MAPPED, _refusing_other_sites)
        for name in checked.keys() & vars(cls).keys():
            setattr(cls, name, checked[name](vars(cls)[name]))
        state_signature(cls)

    def _restate(self, **changes: Any) -> None:
        """State other arguments of the constructor, for a copy that was changed in place."""
        positional, named = self._arguments
        given = inspect.signature(type(self)).bind_partial(*positional, **named).arguments
        vars(self)["_arguments"] = ((), {**given, **changes})
        self.built_as = ""

    @override
    def extra_repr(self) -> str:
        """Arguments of the constructor but for schemes, which are printed as parts."""
        positional, named = self._arguments
        words = [_short(value) for value in positional]
        words += [f"{name}={short}" if (short := _short(value)) else "" for name, value in named.items()]
        return ", ".join(filter(None, words))

    @override
    def register_parameter(self, name: str, param: nn.Parameter | None) -> None:
        # a parameter in `wide` is float32 also if the default dtype is narrower
        if name in self.wide and param is not None and _narrow(param):
            param = nn.Parameter(param.detach().float(), param.requires_grad)
        super().register_parameter(name, param)

    @override
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True):  # .to(), .half() and .cuda() call it
        wide = {id(t) for name in self.wide for t in _with_gradient(getattr(self, name, None))}

        def apply(t: Tensor) -> Tensor:
            result = fn(t)
            return t.to(result.device, torch.float32) if id(t) in wide and _narrow(result) else result

        return super()._apply(apply, recurse)

    @override
    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        metadata = getattr(destination, "_metadata", {}).get(prefix[:-1])  # torch stores versions of modules there
        if metadata is not None:
            metadata[STATE] = {"version": STATE_VERSION, "scheme": type(self).__name__} | self._conventions()

    @override
    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any, unexpected_keys: Any,
        error_msgs: Any,
    ) -> None:  # fmt: skip
        self._refuse_state(local_metadata.get(STATE, {}))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _refuse_state(self, saved: Mapping[str, Any]) -> None:
        name, own = type(self).__name__, self._conventions()
        if saved.get("version", 0) > STATE_VERSION:
            raise ValueError(
                f"this state of {saved.get('scheme', name)} has version {saved['version']}, and this posenc reads up "
                f"to {STATE_VERSION}. Load it with the newer posenc that saved it: pip install --upgrade posenc"
            )
        for option, value in own.items() if saved.get("scheme", name) == name else ():
            if saved.get(option, value) != value:
                raise ValueError(
                    f"this state was saved by {name} with {option}={saved[option]!r}, and this one has "
                    f"{option}={value!r}, which reads the same weights otherwise. "
                    f"Build it with {option}={saved[option]!r}."
                )

    def _conventions(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.conventions}

    @override
    def forward(self, *_: Any) -> Tensor:
        """Always raises ValueError: a scheme is not a layer, a model calls its hooks."""
        raise ValueError(
            f"{type(self).__name__} is not called like a layer: use attention(q, k, v, scheme=..., q_pos=...), or "
            "scheme.prepare(pos) and its hooks."
        )

    def _repr_html_(self) -> str:
        """Name and claims as an HTML table, for notebooks."""
        name = html.escape(super().__repr__())
        if not hasattr(self, "claims"):
            return f"<pre>{name}</pre>"
        claims = {**dataclasses.asdict(self.claims), "sites": ", ".join(sorted(self.claims.sites)) or "none"}
        claims["range"] = "any position" if claims["range"] is None else claims["range"]
        rows = "".join(f"<tr><th>{key}</th><td>{html.escape(str(value))}</td></tr>" for key, value in claims.items())
        return f"<table><caption><code>{name}</code></caption>{rows}</table>"

    # values that depend on positions alone ---------------------------------------------------------------------------
    @abc.abstractmethod
    def prepare(self, pos: Positions) -> Where:
        """Compute everything that depends on positions alone, such as angles, embedding rows or table indices.

        A model or ``attention`` calls it once per forward pass for the queries, and once for the keys if their
        positions differ. Layers that share the scheme share the result. It has no default: every scheme overrides it.

        Args:
            pos: Positions of N tokens, ``coords`` of shape ``(N, P)`` or ``(B, N, P)``.

        Returns:
            A pytree of tensors and plain values, which the other hooks take as ``where``. Tokens without a position
            have neutral entries: angle 0, factor 1, a row of zeros.

        Raises:
            ValueError: If the scheme cannot read ``pos``: number of axes, range of positions, device.
        """

    def for_texts(self, *positions: Positions) -> Scheme:
        """The scheme for given texts, where its map of a token depends on the length of the text.

        A model calls it with the positions of all queries and keys, before ``prepare``. The default returns the scheme
        itself.

        Args:
            *positions: Positions of queries and of keys. Each sample is one text, of the length of its largest position
                plus 1.

        Returns:
            A scheme with the frequencies of those texts, or the scheme itself.
        """
        return self

    def relate(self, where_q: Where, where_k: Where) -> Pair:
        """Compute everything that depends on pairs of a query and a key, such as distances or buckets.

        A model or ``attention`` calls it once per forward pass, after ``prepare``. Layers that share the scheme share
        the result. A distance is always ``k_pos - q_pos``. The default returns None.

        Args:
            where_q: Result of ``prepare`` for the Q queries.
            where_k: Result of ``prepare`` for the K keys.

        Returns:
            A pytree, which ``bias``, ``value_bias``, ``mask`` and ``score_mod`` take as ``pair``. A value with a method
            ``queries(slice)`` lets attention compute long biases for one block of queries at a time.
        """
        return None

    @property
    def head_width(self) -> int | None:
        """Width D of the heads that the scheme acts on, in channels; None for any width.

        The default is the attribute ``head_dim``, and None for a scheme without it.
        """
        return getattr(self, "head_dim", None)

    @property
    def head_count(self) -> int | None:
        """Number of heads that the scheme is built for; None for any number.

        The default is the attribute ``heads``, and None for a scheme without it.
        """
        return getattr(self, "heads", None)

    # the sites; by default each hook changes nothing ---------------------------------------------------------------
    @property
    def out_dim(self) -> int:
        """Width of the rows of ``embed``, in channels.

        Raises:
            ValueError: If the scheme does not act at "embed".
        """
        raise ValueError(self._nothing_to_embed())

    def embed(self, where: Where) -> Float[Tensor, "*B N dim"]:
        """Embedding rows of the positions (site "embed").

        A model calls it once per forward pass and adds, concatenates or multiplies the rows. The model owns the
        placement and any projection. The default returns ``where``, for a scheme whose ``prepare`` computes the rows.

        Args:
            where: Result of ``prepare`` for N tokens.

        Returns:
            Rows of shape ``(N, out_dim)`` or ``(B, N, out_dim)``. Tokens without a position have rows of zeros.

        Raises:
            ValueError: If the scheme does not act at "embed".
        """
        if "embed" not in self.claims.sites:
            raise ValueError(self._nothing_to_embed())
        return where

    @_refusing_other_sites
    def transform(self, x: Tensor, where: Where, site: Literal["q", "k", "v", "o"]) -> Tensor:
        """Map queries, keys, values or head outputs (sites "q", "k", "v", "o"), as rotary encodings do.

        Every attention layer calls it: for q, k and v before the logits, and for o on the attention output. It maps q
        before the multiplication by the softmax scale. The default returns ``x``. An override returns ``x`` unchanged
        at every site that the scheme does not claim.

        Args:
            x: Vectors of each head, ``(B, H, N, D)``. Keys and values may have fewer heads than queries.
            where: Result of ``prepare`` for these N tokens.
            site: "q", "k", "v" or "o".

        Returns:
            Mapped vectors ``(B, H, N, D)``. Queries and keys may become wider, both by the same amount.

        Raises:
            ValueError: If ``site`` is none of the four.
        """
        return x

    @_refusing_other_sites
    def rerotate(self, x: Tensor, where_from: Where, where_to: Where, site: Literal["k", "v"] = "k") -> Tensor:
        """Move cached keys or values from old positions to new ones, without the untransformed vectors.

        Caches that drop or insert tokens call it. The result equals ``transform`` of the original vectors at the new
        positions. The default returns ``x`` if the scheme does not act at ``site``, and raises ValueError otherwise.

        Args:
            x: Cached vectors ``(B, H, K, D)``, as ``transform`` returned them at the old positions.
            where_from: Result of ``prepare`` for the old positions of the K tokens.
            where_to: Result of ``prepare`` for the new positions of the K tokens.
            site: "k" (default) or "v".

        Returns:
            The vectors as transformed at the new positions, with the shape of ``x``.

        Raises:
            ValueError: If ``site`` is neither, or the scheme acts at it and its map cannot be undone.
        """
        if site not in self.claims.sites:
            return x
        raise ValueError(
            f"{type(self).__name__} cannot move {'keys' if site == 'k' else 'values'} that are cached as transformed. "
            "Cache them as projected, and transform them at the new positions."
        )

    def keep(self, x: Tensor, where: Where) -> Tensor | None:
        """Compute what ``bias`` needs of the attention block's input at the keys, such as a gate per token.

        Every attention layer calls it, before ``bias``. A decoding cache stores the result beside keys and values and
        appends to it. The default returns None.

        Args:
            x: Input of the attention block at the keys, ``(B, K, dim)``.
            where: Result of ``prepare`` for the keys.

        Returns:
            A tensor ``(B, H, K, ..)``, which ``bias`` and ``score_mod`` take as ``kept``, or None.
        """
        return None

    def bias(self, q: Tensor, k: Tensor, kept: Tensor | None, pair: Pair, attn_mask: Tensor | None) -> Tensor | None:
        """Term that is added to the attention logits before the softmax (site "bias").

        Every attention layer calls it. If ``bias_reads`` is empty, layers that share the scheme share one result. For
        long sequences it is called for one block of queries at a time. The default returns None: nothing is added.

        Args:
            q: Queries ``(B, H, Q, D)``, transformed and multiplied by the softmax scale.
            k: Keys ``(B, G, K, D)``, transformed. G divides H; with grouped-query attention several query heads share
                one key head (``posenc.kernels.grouped_heads.grouped_logits``).
            kept: Result of ``keep`` for the keys, or None.
            pair: Result of ``relate`` for these queries and keys.
            attn_mask: Boolean mask that broadcasts to ``(B, H, Q, K)``: the scheme's and the caller's mask combined,
                True where a query may attend to a key. None if there is no mask.

        Returns:
            A tensor that broadcasts to ``(B, H, Q, K)``, 0 for pairs without a position, or None.
        """
        return None

    def value_bias(self, weights: Tensor, pair: Pair) -> Tensor | None:
        """Term that is added to the head outputs (site "value_bias"), such as the relative values of Shaw et al.

        Every attention layer calls it, after the softmax and before ``transform`` at "o". The default returns None:
        nothing is added.

        Args:
            weights: Attention weights ``(B, H, Q, K)``.
            pair: Result of ``relate`` for these queries and keys.

        Returns:
            A tensor ``(B, H, Q, D)``, or None.
        """
        return None

    def mask(self, pair: Pair) -> Tensor | None:
        """Attention mask of the scheme (site "mask"), which is combined with the caller's mask by a logical and.

        Every attention layer calls it. The default returns None: every query may attend to every key.

        Args:
            pair: Result of ``relate`` for these queries and keys.

        Returns:
            A boolean tensor that broadcasts to ``(B, H, Q, K)``, True where a query may attend to a key, or None.
        """
        return None

    def mix(self, x: Tensor, where: Where) -> Tensor:
        """Map the output of a block by reading neighboring tokens (site "mix"), as conditional encodings do.

        A model calls it after the residual connections of a block. The default returns ``x``.

        Args:
            x: Output of the block, ``(B, N, dim)``.
            where: Result of ``prepare`` for the N tokens.

        Returns:
            A tensor with the shape of ``x``.
        """
        return x

    def score_mod(self, q: Tensor, kept: Tensor | None, pair: Pair) -> Callable[..., Tensor] | None:
        """FlexAttention form of ``bias`` and ``mask`` together.

        Attention calls it with ``backend="flex"`` only. The default returns None: the scheme has no such form.

        Args:
            q: Queries ``(B, H, Q, D)``, transformed and multiplied by the softmax scale.
            kept: Result of ``keep`` for the keys, or None.
            pair: Result of ``relate`` for these queries and keys.

        Returns:
            A function ``(score, b, h, i, j) -> score`` of one query i and one key j, or None.
        """
        return None

    # scalar definitions, which the contract compares with the hooks ------------------------------------------------
    def define_embed(self, p: Tensor) -> Tensor:
        """Scalar definition of ``embed``: the row of one position.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            p: One position ``(P,)``.

        Returns:
            The row ``(out_dim,)``.

        Raises:
            NotImplementedError: If the scheme claims the site and has no definition.
        """
        raise NotImplementedError(self._no_formula("embed", "define_embed(self, p)"))

    def define_rows(self, p: Tensor) -> Tensor:
        """Scalar definition of ``embed`` for a whole sample.

        The contract calls it, with inputs in float64. The default stacks ``define_embed`` of each position. Override it
        if a row depends on the other positions.

        Args:
            p: Positions of one sample, ``(N, P)``.

        Returns:
            The rows ``(N, out_dim)``.
        """
        return torch.stack([self.define_embed(one) for one in p])

    def define_node_rows(self, p: Tensor, graph: GraphBatch) -> Tensor:
        """Scalar definition of ``embed`` for the nodes of one graph.

        The contract calls it for positions with a graph, with inputs in float64. The default is ``define_rows``.
        Override it if a row depends on the edges or eigenvalues of the graph.

        Args:
            p: Positions of the nodes, ``(N, P)``.
            graph: The graph, without a batch axis.

        Returns:
            The rows ``(N, out_dim)``.
        """
        return self.define_rows(p)

    def define_transform(self, x: Tensor, p: Tensor, site: str, head: Head) -> Tensor:
        """Scalar definition of ``transform``: the map of one vector of one head.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            x: Vector ``(D,)`` of one token.
            p: Position ``(P,)`` of that token.
            site: "q", "k", "v" or "o".
            head: Number of the head; ``head.among(h)`` is the number among h heads of the scheme.

        Returns:
            The mapped vector.

        Raises:
            NotImplementedError: If the scheme claims a site and has no definition.
        """
        raise NotImplementedError(self._no_formula(site, "define_transform(self, x, p, site, head)"))

    def define_bias(self, at: At) -> Tensor:
        """Scalar definition of ``bias``: the term of one query and one key.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            at: The query and the key.

        Returns:
            A tensor with one value.

        Raises:
            NotImplementedError: If the scheme claims the site and has no definition.
        """
        raise NotImplementedError(self._no_formula("bias", "define_bias(self, at)"))

    def define_value_bias(self, at: At) -> Tensor:
        """Scalar definition of ``value_bias``: the vector that query ``at.i`` adds to the value of key ``at.j``.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            at: The query and the key.

        Returns:
            The vector ``(D,)``.

        Raises:
            NotImplementedError: If the scheme claims the site and has no definition.
        """
        raise NotImplementedError(self._no_formula("value_bias", "define_value_bias(self, at)"))

    def define_mask(self, at: At) -> bool:
        """Scalar definition of ``mask``: True if query ``at.i`` may attend to key ``at.j``.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            at: The query and the key.

        Returns:
            True or False.

        Raises:
            NotImplementedError: If the scheme claims the site and has no definition.
        """
        raise NotImplementedError(self._no_formula("mask", "define_mask(self, at)"))

    def define_mix(self, x: Tensor, pos: Positions, n: int) -> Tensor:
        """Scalar definition of ``mix``: one token of one sample.

        The contract calls it, with inputs in float64. The default raises NotImplementedError.

        Args:
            x: Output of a block for one sample, ``(N, dim)``.
            pos: Positions of the N tokens, a full grid of shape ``pos.lattice``.
            n: Number of the token.

        Returns:
            The mixed vector ``(dim,)`` of token ``n``.

        Raises:
            NotImplementedError: If the scheme claims the site and has no definition.
        """
        raise NotImplementedError(self._no_formula("mix", "define_mix(self, x, pos, n)"))

    # checks of inputs ----------------------------------------------------------------------------------------------
    def _nothing_to_embed(self) -> str:
        if "embed" in self.claims.sites:
            return (
                f"{type(self).__name__} acts at embed and has no width. Write its property `out_dim`: return self.dim."
            )
        sites = ", ".join(sorted(self.claims.sites)) or "no site"
        return (
            f"{type(self).__name__} embeds nothing: it acts at {sites}. Ask first whether 'embed' is in claims.sites."
        )

    def _no_formula(self, site: str, write: str) -> str:
        return f"{type(self).__name__} claims the site {site} and has no formula beside its code: write {write}"

    def _take(self, pos: Positions) -> Positions:
        """``pos`` unchanged, after checks of its number of axes, its device and its range (ValueError)."""
        name, axes = type(self).__name__, self.claims.axes
        if not isinstance(pos, Positions):
            raise ValueError(
                f"{name}.prepare takes positions; got {type(pos).__name__}. Write prepare(sequence(n)), "
                "prepare(grid(h, w)) or prepare(Positions(your_tensor))."
            )
        own_view = self.graph_view
        other_view = own_view is not None and pos.graph is not None and repr(own_view) not in pos.graph.view
        if (axes is not None and pos.axes != axes) or other_view:
            raise ValueError(self._other_axes(pos, axes or pos.axes))
        own = next(itertools.chain(self.parameters(), self.buffers()), None) if readable(pos.coords) else None
        if own is not None and own.device != pos.coords.device:
            raise ValueError(
                f"this {name} is on {own.device} and the positions on {pos.coords.device}. Write "
                f"pos.to({str(own.device)!r}), or where a model makes them scheme.to({str(pos.coords.device)!r})."
            )
        if self.claims.range is not None and readable(pos.coords):
            self._refuse_outside(pos)
        for field in sorted(self.graph_reads):
            if pos.graph is None or getattr(pos.graph, field) is None:
                view = {"hops": "hops", "eigenvalues": "eigenvectors"}[field]
                raise ValueError(
                    f"{name} here reads the {field} of a batch of graphs, and these positions have none. Make them by "
                    f"posenc.graphs([..], view={view!r})."
                )
        return pos

    def _other_axes(self, pos: Positions, axes: int) -> str:
        name, own = type(self).__name__, self.graph_view
        if own is None:
            fix = f"Build it for axes={pos.axes} if it can, or choose another scheme: posenc list --axes {pos.axes}"
            return f"{name} here reads {axes} axes per position; these positions have {pos.axes}. {fix}"
        given = "no graph" if pos.graph is None else f"of the view {pos.graph.view}"
        size = "" if own == "hops" else f", axes={axes}"
        same_view = pos.graph is None or repr(own) in pos.graph.view
        other = (
            f", or build {name} with axes={pos.axes} if they are of that view" if same_view and own != "hops" else ""
        )
        return (
            f"{name} here reads {axes} {'axis' if axes == 1 else 'axes'} of the view {own!r} of a graph; these "
            f"positions have {pos.axes}, {given}. Make them by posenc.graphs([..], view={own!r}{size}){other}."
        )

    def _whole(self, pos: Positions) -> Positions:
        """``pos`` unchanged, after the checks of ``_take`` and a check that every position is an integer."""
        pos = self._take(pos)
        if pos.coords.is_floating_point() and readable(pos.coords):
            coords = _placed(pos)
            between = coords != coords.round()
            if bool(between.any()):
                raise ValueError(
                    f"{type(self).__name__} counts in whole positions; position {coords[between][0].item():g} lies "
                    "between two. Round them, or use a scheme for real positions: posenc list"
                )
        return pos

    def _rows(self, pos: Positions) -> Tensor:
        """Row numbers ``(.., N)`` of a table, from integer positions on one axis."""
        self._whole(pos)
        return pos.coords[..., 0].long()

    def _refuse_outside(self, pos: Positions) -> None:
        coords = _placed(pos).detach()
        if coords.numel() == 0:
            return
        limits = self.claims.limits(pos.axes)
        if len(set(limits)) == 1:  # one reduction over all axes is faster
            self._refuse_beyond(coords, limits[0], "")
            return
        for axis, of_axis in enumerate(limits):
            self._refuse_beyond(coords[..., axis], of_axis, f" on axis {axis}")

    def _refuse_beyond(self, coords: Tensor, limits: Interval | None, where: str) -> None:
        low, high = (float(end) for end in coords.aminmax())
        if limits is not None and (low < limits[0] or high > limits[1]):
            below = low < limits[0]
            fix = f"Move them there, pos + {limits[0] - low:g}" if below else f"Build it to reach {high:g}"
            raise ValueError(
                f"{type(self).__name__} starts at {limits[0]:g} and stops at {limits[1]:g}{where}; position "
                f"{low if below else high:g} was asked for. {fix}, or use a scheme without a limit: "
                "posenc list --unbounded"
            )


def per_head(values: Tensor, x: Tensor, name: str, *, dim: int = -3) -> Tensor:
    """Per-head values of a scheme built for h heads, repeated to match the H heads of a tensor.

    If h is 1, all heads share it. If H is a multiple of h, neighboring heads share one, as query heads share a key
    head.

    Args:
        values: Values with h heads, such as ``(.., h, N, F)``.
        x: Tensor ``(B, H, N, D)`` to match.
        name: Name of the scheme, for the error.
        dim: Axis of the heads in ``values``. Default -3.

    Returns:
        ``values`` if h is 1 or H; otherwise ``values`` with H heads.

    Raises:
        ValueError: If h does not divide H.
    """
    own, heads = values.shape[dim], x.shape[1]
    if own in (1, heads):
        return values
    if heads % own:
        remedy = "or with the number of key heads where query heads share them" if heads > own else "those of the keys"
        raise ValueError(
            f"this {name} is built for {own} heads and meets {heads}. Build it with heads={heads}, {remedy}."
        )
    return values.repeat_interleave(heads // own, dim)


def _with_gradient(t: Tensor | None) -> tuple[Tensor, ...]:
    grad = None if t is None or not t.is_leaf else t.grad
    return () if t is None else (t,) if grad is None else (t, grad)


def _narrow(t: Tensor) -> bool:
    return t.is_floating_point() and t.dtype.itemsize < 4


def _placed(pos: Positions) -> Tensor:
    """Coordinates ``(.., P)`` of tokens that have a position in at least one sample."""
    if pos.placed is None:
        return pos.coords
    placed = pos.placed if pos.coords.dim() == 3 or pos.placed.dim() == 1 else pos.placed.any(0)
    return pos.coords[placed.expand(pos.coords.shape[:-1])]
