"""Small language models, for any scheme of the catalogue, texts for them, and caches that have read these."""

import torch

from posenc.contract.case import Case
from posenc.models.cache import Cache
from posenc.models.generation import extend
from posenc.models.language import LanguageConfig, LanguageModel

VOCABULARY = 11


def config(**options) -> LanguageConfig:
    small = {"vocabulary": VOCABULARY, "dim": 48, "depth": 2, "heads": 4, "key_heads": 2, "hidden": 32, "tied": False}
    return LanguageConfig(**(small | options))


def model_of(scheme, **options) -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(config(**options), lambda layer: scheme).double().requires_grad_(False)


def of_catalogue(case: Case, dtype: torch.dtype = torch.float64):
    """A model of two layers that a scheme fits, or None where it mixes tokens or makes rows of few numbers."""
    scheme = case.make(dtype=dtype)
    if "mix" in scheme.claims.sites or ("embed" in scheme.claims.sites and scheme.out_dim < 8):
        return None
    shapes = [{"dim": 4 * (scheme.head_width or 12)}, {"dim": 12, "heads": 4}, {"dim": 12, "heads": 1, "key_heads": 1}]
    if "embed" in scheme.claims.sites:
        shapes = [{"dim": scheme.out_dim, "heads": 1, "key_heads": 1}]
    shapes += [shape | {"key_heads": 4} for shape in shapes if shape.get("heads", 4) == 4]  # of heads that differ
    for shape in shapes:
        try:
            model = LanguageModel(config(**shape), lambda layer: scheme).to(dtype).requires_grad_(False)
            model(some_tokens(1, 2), case.positions(2))
            return model
        except (ValueError, RuntimeError):
            continue
    raise AssertionError(f"no shape fits {case}")


def some_tokens(batch: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, count), generator=torch.Generator().manual_seed(seed))


def same(found, wanted, atol=1e-9):
    torch.testing.assert_close(found, wanted, atol=atol, rtol=0)


def in_runs(model, tokens, runs, pos=None, documents=None, room=2):
    """Logits of tokens that are read run by run, and the cache that holds them."""
    cache, found, start = Cache(room=room), [], 0
    for stop in runs:
        part = slice(start, stop)
        found.append(
            extend(
                model, tokens[:, part], cache, pos=None if pos is None else pos[part],
                documents=None if documents is None else documents[..., part],
            )
        )  # fmt: skip
        start = stop
    return torch.cat(found, 1), cache
