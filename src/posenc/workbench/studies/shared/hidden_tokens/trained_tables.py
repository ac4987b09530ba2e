"""Learned tables of positions of the variants of a page, told from given ones such as the number of a channel."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import torch

from posenc.lookup.scheme_text import Specification, axes_of, build
from posenc.models.encoder import EncoderConfig
from posenc.positions import Positions
from posenc.scheme import Scheme
from posenc.workbench.report.result_rows import values_by_scheme
from posenc.workbench.runs import RunSpec
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.declarations import MAIN
from posenc.workbench.studies.shared.hidden_tokens.variants import VIEWS, MaskedVariant
from posenc.workbench.studies.shared.page_data import PageData

SPACE = 3
"""Number of coordinates that a scheme is built for where neither its text nor its view states one."""


def learned_labels(data: PageData, condition: str = MAIN) -> list[str]:
    """Variants whose table of positions has trained values.

    A table is learned if the scheme has trained parameters at the site of the embedding. Where the scheme of a run
    cannot be built any more, the table is learned if its AUC differs from that before training.

    Args:
        data: Data of the page.
        condition: Label of the condition.

    Returns:
        The variants, in the order of the runs.
    """
    specs = _first_runs(data, condition)
    return [label for label, spec in specs.items() if _is_learned(data, spec)]


def independent_labels(data: PageData, condition: str = MAIN) -> list[str]:
    """Variants whose initial table has an independent random row for every token.

    Such a table reads neither coordinates nor the order of the tokens.

    Args:
        data: Data of the page.
        condition: Label of the condition.

    Returns:
        The variants, in the order of the runs.
    """
    labels = []
    for label, spec in _first_runs(data, condition).items():
        parts = list(_embedding_parts(_scheme(spec)))
        if parts and all(_has_a_row_per_token(part, int(spec.settings["data"]["tokens"])) for part in parts):
            labels.append(label)
    return labels


def _has_a_row_per_token(scheme: Scheme, tokens: int) -> bool:
    """True for a learned table with one row per whole number; other schemes compute a row from the position."""
    claims = scheme.claims
    if not claims.learned or claims.axes != 1:
        return False
    (limits,) = claims.limits(1)
    return limits is not None and limits[0] == 0 and limits[1] >= tokens - 1


def _first_runs(data: PageData, condition: str) -> dict[str, RunSpec]:
    """The first run of each variant with a model; baselines have none."""
    specs: dict[str, RunSpec] = {}
    for spec in data.specs:
        if spec.condition == condition and "row" in spec.settings:
            specs.setdefault(spec.variant, spec)
    return specs


def _is_learned(data: PageData, spec: RunSpec) -> bool:
    scheme = _scheme(spec)
    if scheme is not None:
        return any(each.requires_grad for part in _embedding_parts(scheme) for each in part.parameters(recurse=True))
    after, before = (
        values_by_scheme(data.rows, metric, spec.condition).get(spec.variant, {}) for metric in ("auc", "auc_initial")
    )
    return any(after[seed] != before[seed] for seed in after.keys() & before.keys())


def _scheme(spec: RunSpec) -> Scheme | None:
    """The scheme of a run, untrained; None where it cannot be built, as one whose file is gone."""
    settings = spec.settings
    variant = msgspec.convert(settings["row"], MaskedVariant)
    config, count = msgspec.convert(settings["model"], EncoderConfig), int(settings["data"]["tokens"])
    specification = Specification(variant.scheme, variant.options)
    axes = VIEWS[variant.view].axes or axes_of(specification) or SPACE
    known = {"dim": config.dim, "head_dim": config.head_dim, "heads": config.heads}
    sizes = position_views.sizes_at(
        known | {"max_len": count, "max_distance": count - 1}, Positions(torch.zeros(count, axes))
    )
    try:
        with torch.random.fork_rng(devices=[]):
            return build(specification, sizes)
    except ValueError:
        return None


def _embedding_parts(scheme: Scheme | None) -> Iterator[Scheme]:
    """The schemes that a scheme is made of and that embed; the scheme itself where it is made of no others."""
    if scheme is None or "embed" not in scheme.claims.sites:
        return
    inner = [each for each in scheme.modules() if isinstance(each, Scheme) and each is not scheme]
    if not inner:
        yield scheme
        return
    for part in inner:
        if "embed" in part.claims.sites and not any(isinstance(each, Scheme) for each in [*part.modules()][1:]):
            yield part
