"""Learned position tables of transformers models such as GPT-2, BERT, RoBERTa and OPT: read, resize, replace.

Tables of images, as of ViT, are read here and changed by ``vision_transformer``. A table of texts is an
``nn.Embedding``. Some models keep rows before that of the first position: OPT and BART two, RoBERTa
those up to its padding token. They are never changed. The table stays a table of the model, so ``save_pretrained`` and
``from_pretrained`` need no posenc.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from posenc.adapt.compatibility import device_of, refuse_no_model, refuse_no_values, refuse_sites
from posenc.adapt.image_tables import image_tables, refuse_other_kinds, refuse_stages, timm_table
from posenc.kernels.resampling import resample
from posenc.positions import sequence
from posenc.scheme import Scheme
from posenc.schemes.learned import Learned

Model = TypeVar("Model", bound=nn.Module)
NAMES = ("wpe", "position_embeddings", "position_embedding", "embed_positions")
"""Names of position tables in transformers."""


class _Table(NamedTuple):
    """A position table, the module that holds it, and the number of rows before the first position."""

    parent: Any
    name: str
    embedding: nn.Embedding
    before: int

    @property
    def rows(self) -> Tensor:
        return self.embedding.weight.detach()[self.before :]


def learned_table(model: nn.Module) -> Learned:
    """Read the learned position table of a model of transformers, or of a ViT of timm.

    Args:
        model: A model with one position table, such as GPT-2, BERT, RoBERTa, OPT or ViT; or the part of a larger model
            that has it, such as ``model.model.decoder``.

    Returns:
        A scheme with a copy of the table. Row p is that of position p, or that of patch p in row-major order. Rows of
        class tokens are left out.

    Raises:
        ValueError: If the model has no such table or several.

    Example:
        >>> import torch
        >>> from posenc.adapt import learned_table
        >>> model = torch.nn.Module()  # stands for GPT2LMHeadModel.from_pretrained("gpt2")
        >>> model.wpe = torch.nn.Embedding(64, 8)
        >>> learned_table(model).table.shape
        torch.Size([64, 8])
    """
    refuse_no_model(model, "learned_table")
    refuse_no_values(model, "learned_table")
    images = [] if (vit := timm_table(model)) else image_tables(model)
    if vit:
        table, prefix = vit
        rows = table.detach()[0, prefix:]
    elif images and not _texts(model):
        refuse_stages(images, model)
        refuse_other_kinds(images, model)
        rows = images[0].rows[images[0].prefix :]
    else:
        rows = _find(model, "learned_table").rows
    scheme = Learned(rows.shape[1], len(rows), sigma=0.0).to(rows.device, rows.dtype)
    with torch.no_grad():
        scheme.table.copy_(rows)
    return scheme


def resize_table(model: Model, length: int, *, method: Literal["repeat", "resample"] = "repeat") -> Model:
    """Change the number of positions of a learned table, in place.

    Args:
        model: As for ``learned_table``.
        length: New number of positions.
        method: "repeat" (default) keeps each row at its position and repeats the table beyond its end, as Longformer
            starts. A model then computes the same as before for texts of the old length. "resample" stretches the table
            by antialiased cubic interpolation, so that the last row stays last.

    Returns:
        The same model. Its configuration has the new length.

    Raises:
        ValueError: If the model has no such table or several, ``length`` is less than 1, ``method`` is unknown, or the
            model keeps a mask of the old length.

    Example:
        >>> import torch
        >>> from posenc.adapt import resize_table
        >>> model = torch.nn.Module()  # stands for GPT2LMHeadModel.from_pretrained("gpt2")
        >>> model.wpe = torch.nn.Embedding(64, 8)
        >>> resize_table(model, 128).wpe
        Embedding(128, 8)

    References:
        Beltagy, Peters and Cohan 2020, arXiv 2004.05150, section 5 (repeated rows).
    """
    table = _find(model, "resize_table")
    _refuse_length(model, table, length)
    if method not in ("repeat", "resample"):
        raise ValueError(f"a table is resized by 'repeat' or 'resample'; got method={method!r}.")
    old = table.rows
    repeated = old[torch.arange(length, device=old.device) % len(old)]
    rows = repeated if method == "repeat" else resample(old, (length,)).to(old.dtype)
    _write(model, table, rows, trained=table.embedding.weight.requires_grad)
    return model


def replace_table(model: Model, scheme: Scheme, *, length: int | None = None) -> Model:
    """Write the rows of a scheme into the learned position table of a transformers model, in place.

    Rows of a scheme without parameters are not trained afterwards; rows of a learned scheme are, as rows of the table.
    ``NoPE()`` gives rows of zeros.

    Args:
        model: As for ``learned_table``.
        scheme: A scheme that acts at "embed" alone, with rows of the model's width, or ``NoPE()``.
        length: Number of positions. Default: the present number, or that of a scheme with a limit.

    Returns:
        The same model. Its configuration has the new length.

    Raises:
        ValueError: If the model has no such table or several; if the scheme acts elsewhere, has another width or not as
            many positions; or if the model keeps a mask of the old length.

    Example:
        >>> import torch
        >>> from posenc import Sinusoid
        >>> from posenc.adapt import replace_table
        >>> model = torch.nn.Module()  # stands for GPT2LMHeadModel.from_pretrained("gpt2")
        >>> model.wpe = torch.nn.Embedding(64, 8)
        >>> replace_table(model, Sinusoid(8), length=256).wpe
        Embedding(256, 8)
    """
    table = _find(model, "replace_table")
    refuse_sites(
        scheme, {"embed"}, f"{type(model).__name__} adds a position table to its tokens", example="Sinusoid(768)"
    )
    limit = scheme.claims.range
    if length is None:
        length = len(table.rows) if limit is None else 1 + int(torch.as_tensor(limit).max())
    _refuse_length(model, table, length)
    like = table.embedding.weight
    if "embed" in scheme.claims.sites:
        if scheme.out_dim != like.shape[1]:
            raise ValueError(
                f"the table of {type(model).__name__} has rows of width {like.shape[1]}, and this "
                f"{type(scheme).__name__} makes rows of width {scheme.out_dim}."
            )
        own = device_of(scheme)
        rows = scheme.embed(scheme.prepare(sequence(length, device=own))).detach()
    else:
        rows = torch.zeros(length, like.shape[1])
    _write(model, table, rows.to(like.device, like.dtype), trained=scheme.claims.learned)
    return model


def _embeddings(model: nn.Module) -> list[tuple[str, nn.Module, str, nn.Embedding]]:
    """Position tables that are an ``nn.Embedding``: the path and the module that holds it, its name, the table."""
    return [
        (path, parent, name, child)
        for path, parent in model.named_modules()
        for name, child in parent.named_children()
        if name in NAMES and isinstance(child, nn.Embedding)
    ]


def _texts(model: nn.Module) -> list[nn.Embedding]:
    """Position tables of texts, which are not those of images."""
    images = {id(table.weight) for table in image_tables(model)}
    return [embedding for *_, embedding in _embeddings(model) if id(embedding.weight) not in images]


def _find(model: nn.Module, caller: str) -> _Table:
    refuse_no_model(model, caller)
    refuse_no_values(model, caller)
    found = _embeddings(model)
    kind = type(model).__name__
    if image_tables(model) and not _texts(model):
        raise ValueError(
            f"the position table of {kind} is one of images. Write vision_transformer(model, image=..) for another "
            "image size, or vision_transformer(model, scheme) for rows of a scheme."
        )
    if not found:
        raise ValueError(
            f"{kind} has no position table: no nn.Embedding with a name among {', '.join(NAMES)}. Rotary models take "
            "posenc.adapt.llama, vision transformers posenc.adapt.vision_transformer."
        )
    if len(found) > 1:
        places = " and ".join(f"{path}.{name}" for path, _, name, _ in found[:3])
        raise ValueError(f"{kind} has {len(found)} position tables ({places}). Pass the part of the model with one.")
    _, parent, name, embedding = found[0]
    padding = embedding.padding_idx
    before = int(getattr(embedding, "offset", 0 if padding is None else padding + 1))
    return _Table(parent, name, embedding, before)


def _refuse_length(model: nn.Module, table: _Table, length: int) -> None:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ValueError(f"`length` is a number of positions, a whole number of at least 1; got {length!r}.")
    old = len(table.rows)
    for name, buffer in model.named_buffers():
        if length > old and buffer.dim() > 1 and buffer.shape[-2:] == (old, old):
            raise ValueError(
                f"{type(model).__name__} keeps a mask for {old} tokens in {name}, so its table cannot get longer. Set "
                "max_position_embeddings in its configuration before the model is built."
            )


def _write(model: nn.Module, table: _Table, rows: Tensor, *, trained: bool) -> None:
    """Write rows into a table; follow with the buffers and the configuration that state its length."""
    embedding, old = table.embedding, len(table.embedding.weight)
    weight = torch.cat([embedding.weight.detach()[: table.before], rows])
    embedding.weight = nn.Parameter(weight, requires_grad=trained)
    embedding.num_embeddings = len(weight)
    more = len(weight) - old
    for name, buffer in table.parent.named_buffers(recurse=False):
        if buffer.dim() == 2 and buffer.shape[1] == old and not buffer.is_floating_point():
            ids = torch.arange(len(weight), device=buffer.device).expand(1, -1)
            setattr(table.parent, name, ids if name == "position_ids" else torch.zeros_like(ids))
    config = getattr(model, "config", None)
    if hasattr(config, "max_position_embeddings"):
        config.max_position_embeddings += more  # pyright: ignore
