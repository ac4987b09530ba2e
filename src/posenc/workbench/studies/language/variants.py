"""The encodings of the language study by label: the schemes of a causal model, layer by layer; n-gram baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import torch

from posenc.lookup.scheme_reference import split_view
from posenc.lookup.scheme_text import Specification, build, parse_layers, per_layer
from posenc.models import layers
from posenc.models.language import LanguageConfig, LanguageModel
from posenc.models.segment_rule import SegmentRule
from posenc.position_augmentation import randomized
from posenc.positions import Positions, sequence
from posenc.schemes.alibi import plain_slopes
from posenc.segment_positions import LONGEST
from posenc.workbench.studies.shared import position_views
from posenc.workbench.studies.shared.learned_tables import PREFIX, learned, sigma_of
from posenc.workbench.studies.shared.position_views import PositionView

Scaling = Literal["linear", "ntk", "yarn", "yarn-released"]

RANDOMIZED = "-randomized"
"""Ending of the labels of encodings that read randomized positions."""
SIGMA = 0.5
"""Standard deviation of the initial learned table. Token vectors have a standard deviation of 1."""
LEARNED = learned(SIGMA)

VIEWS = (PositionView("index", 1, "number of a token"),)
"""Views of the positions."""

NGRAMS = {"unigram": 1, "bigram": 2}
"""N-gram baseline to its order. Their probabilities are counted, not trained."""
COMPARED = ("nope", LEARNED, "sinusoid", "rope", "vo-rope", "alibi", "t5", "fire")
ROTARY = ("rope", "qkvo-rope", "k-rope", "vo-rope", "qkv-rope", "nope", "o-rope", "q-rope", "v-rope")
"""Rotation of all subsets of queries, keys, values and outputs that were published; "nope" rotates none."""
RELATIVE = ("rope", "qkvo-rope", "vo-rope", "nope")
"""Encodings of ROTARY with which predictions depend on differences of positions alone."""
SCALED: Mapping[str, Scaling] = {
    "rope-linear": "linear", "rope-ntk": "ntk", "rope-yarn": "yarn", "rope-yarn-released": "yarn-released",
}  # fmt: skip
"""Variant whose frequencies are scaled after training to its scaling. It is trained as "rope"."""
EXTRAPOLATION = (
    "nope", LEARNED, "sinusoid", "rope", "xpos", "alibi", "t5", "kerple", "fire", "cope", "rope and nope",
    f"sinusoid{RANDOMIZED}", f"rope{RANDOMIZED}", *SCALED,
)  # fmt: skip
RECALL = (*EXTRAPOLATION, "vo-rope")
SEGMENTED = ("bipe-rope", "bipe-alibi")
"""Encodings that read segments, which end at line ends. Texts without line ends and recall tasks have none."""
RECENT = (
    "p-rope", "rope-chunks and nope", "rope-window and nope", "fope", "selective-rope", "relative-logits", "path",
    "fox", "dape", "stick-breaking", *SEGMENTED,
)  # fmt: skip
"""Encodings of 2024 and later, and recipes by layer of models since then."""
RECENT_BESIDE = ("nope", "rope", "alibi")
"""Encodings that the recent ones are compared with."""

RANGE_FACTOR = 2
"""Range of randomized positions in multiples of the longest context. With 1 the longest would have consecutive ones."""
LEAST_MAX_DISTANCE = 32
"""Lower bound of ``max_distance``. Half of T5's 32 buckets hold one distance each, and the others need larger ones."""

P_ROPE_SHARE = 0.25
"""Share of the pairs of channels that p-RoPE rotates, as in Gemma 4."""
WINDOWS_PER_LAYER = 2
"""Chunks, or windows, within the training length of the layers with local attention."""

NO_SEGMENTS = "and no token of this text does (words have no fixed numbers here)"
"""Reason why a text has no segments."""
SEGMENT_SLOPE = 96
"""Factor of the slopes of ALiBi between segments, as in the code of BiPE."""

_RANDOMIZED_TEXT = (
    f"randomized positions in training and testing: increasing integers below {RANGE_FACTOR} times the longest context"
)
DESCRIPTIONS: Mapping[str, str] = {
    "unigram": "frequency of each token (counted)",
    "bigram": "frequency of each token after each other token (counted)",
    "nope": "no encoding; the causal mask alone",
    LEARNED: "a learned vector for each position of the training window, added at the input",
    "sinusoid": "sines and cosines of the position, added at the input",
    "rope": "rotation of queries and keys",
    "vo-rope": "rotation of values, inverse rotation of outputs",
    "qkvo-rope": "rotation of queries, keys and values, inverse rotation of outputs",
    "k-rope": "rotation of keys only",
    "qkv-rope": "rotation of queries, keys and values; outputs are not rotated back",
    "o-rope": "rotation of outputs only",
    "q-rope": "rotation of queries only",
    "v-rope": "rotation of values only",
    "xpos": "RoPE with a decay by distance",
    "alibi": "a bias that falls linearly with distance, with a fixed slope per head",
    "t5": "a learned bias per bucket of distances",
    "kerple": "a learned logarithmic bias by distance",
    "fire": "a bias from a small network that reads the distance as a fraction of the query's position",
    "cope": "positions that count the keys whose gate is open for a query",
    "rope and nope": "RoPE in three layers of four and no encoding in the fourth; in turn with fewer than four layers",
    "p-rope": "RoPE that rotates the fastest quarter of the pairs of channels and keeps the others still (p-RoPE)",
    "rope-chunks and nope": "RoPE in chunks of half the training length in three layers of four; in the fourth no "
    "encoding, and queries that grow with the logarithm of the position (iRoPE, Llama 4); in turn with fewer layers",
    "rope-window and nope": "RoPE in a window of half the training length in three layers of four, and no encoding in "
    "the fourth (RNoPE, Command A); in turn with fewer layers",
    "fope": "RoPE whose pairs turn by random sums of the waves that fit into the training length (FoPE)",
    "selective-rope": "rotation of queries and keys by angles that each token adds to",
    "relative-logits": "a bias by distance that each query mixes from learned profiles (Inkling)",
    "path": "reflections that each token applies to the keys before it (PaTH)",
    "fox": "a bias that falls by the forget gate of each token between (Forgetting Transformer)",
    "dape": "the biases of KERPLE, corrected by a small network that reads the logits of all heads (DAPE)",
    "stick-breaking": "attention weights that each key takes of what nearer keys have left",
    "bipe-rope": "a learned vector for the place of a token in its line, added at the input, and RoPE on the number of "
    "the line (BiPE)",
    "bipe-alibi": "a learned vector for the place of a token in its line, added at the input, and ALiBi, 96 times as "
    "steep, on the number of the line (BiPE)",
    f"sinusoid{RANDOMIZED}": f"sinusoid with {_RANDOMIZED_TEXT}",
    f"rope{RANDOMIZED}": f"RoPE with {_RANDOMIZED_TEXT}",
    "rope-linear": "RoPE; after training all frequencies are divided by the factor of the context (linear scaling)",
    "rope-ntk": "RoPE; after training the frequencies are lowered, low ones most (NTK-aware scaling)",
    "rope-yarn": "RoPE; after training low frequencies are lowered and logits are scaled (YaRN, ramp of the paper)",
    "rope-yarn-released": "RoPE; after training low frequencies are lowered and logits are scaled (YaRN, ramp of the "
    "released code, which transformers runs)",
}
"""Description of every encoding and baseline that the study names."""


class LanguageVariant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A causal model with its schemes.

    Attributes:
        config: Sizes of the model.
        schemes: Layer l of the model has scheme ``l mod n`` of these n.
        position_range: Number of integers that the positions of a window are drawn from; None for consecutive
            positions.
    """

    config: LanguageConfig
    schemes: tuple[Specification, ...] = msgspec.field(name="turns")
    position_range: int | None = msgspec.field(default=None, name="randomised")

    def scheme_arguments(self, window: int) -> dict[str, Any]:
        """Constructor arguments of schemes that follow from the model and the training length, in tokens."""
        return {
            "dim": self.config.dim,
            "heads": self.config.heads,
            "head_dim": self.config.head_dim,
            "axes": 1,
            "max_len": window,
            "max_distance": max(window, LEAST_MAX_DISTANCE),
            "npos_max": window,
            "threshold": float(window),
            "extent": float(window),
        }

    def model(self, window: int) -> LanguageModel:
        """The untrained model.

        Args:
            window: Training length in tokens.

        Raises:
            ValueError: A scheme does not fit the model.
        """
        factories = [per_layer(scheme, self.scheme_arguments(window)) for scheme in self.schemes]
        return LanguageModel(self.config, factories[0] if len(factories) == 1 else layers.layers(*factories))

    def positions(self, length: int, samples: int, generator: torch.Generator, device: str = "cpu") -> Positions | None:
        """Randomized positions (Ruoss et al. 2023, arXiv 2305.16843).

        Args:
            length: Number of tokens of a sample.
            samples: Number of samples.
            generator: Random generator.
            device: Device of the positions.

        Returns:
            Positions of each sample; None for those of the model: consecutive ones, or segments.
        """
        if self.position_range is None:
            return None
        return randomized(sequence(length), self.position_range, batch=samples, generator=generator).to(device)

    def length_error(self, window: int, longest: int) -> str:
        """Error of a scheme that cannot read long contexts.

        Args:
            window: Training length in tokens.
            longest: Length of the context in tokens.

        Returns:
            The message of the first error; "" if all schemes can read the context.
        """
        if self.position_range is not None:
            return ""
        rule = self.config.segments
        pos = rule.spread(longest) if rule else sequence(longest)
        for specification in self.schemes:
            scheme = build(specification, self.scheme_arguments(window))
            try:
                scheme.prepare(pos)
            except ValueError as error:
                return str(error)
        return ""


def _recent_schemes(config: LanguageConfig, window: int) -> dict[str, tuple[Specification, ...]]:
    """Label of a recent encoding to the schemes of successive layers, for a training length."""
    proportional = {"schedule": "proportional", "options": {"share": P_ROPE_SHARE}}
    size, local = max(2, window // WINDOWS_PER_LAYER), 3 if config.depth >= 4 else 1

    def within(scheme: Specification) -> tuple[Specification, ...]:
        parts = [{"scheme": each.scheme, "options": each.options} for each in (Specification("RoPE"), scheme)]
        return (Specification("Sum", {"parts": parts}),) * local

    return {
        "p-rope": (Specification("RoPE", {"frequencies": proportional}),),
        "rope-chunks and nope": (
            *within(Specification("ChunkedAttention", {"chunk": size})),
            Specification("Temperature", {"length": float(window)}),
        ),
        "rope-window and nope": (
            *within(Specification("SlidingWindow", {"size": size})),
            Specification("NoPE"),
        ),
        "fope": (Specification("FoPE", {"heads": config.key_heads, "extent": float(window)}),),
        "selective-rope": (Specification("SelectiveRoPE"),),
        "relative-logits": (Specification("RelativeLogits", {"distances": window}),),
        "path": (Specification("PaTH"),),
        "fox": (Specification("FoX"),),
        "dape": (Specification("DAPE", {"scheme": {"scheme": "KERPLELog", "options": {}}}),),
        "stick-breaking": (Specification("StickBreaking"),),
    }


def _segmented_schemes(config: LanguageConfig, places: int) -> dict[str, tuple[Specification, ...]]:
    """Label of an encoding of segments to its scheme, for segments of some places."""
    within = {"scheme": "Learned", "options": {"max_len": places, "sigma": SIGMA}}
    slopes = {"slopes": [SEGMENT_SLOPE * m for m in plain_slopes(config.heads)]}
    between = (("RoPE", {}), ("ALiBi", slopes))
    parts = [{"within": within, "between": {"scheme": name, "options": options}} for name, options in between]
    return {label: (Specification("BiPE", each),) for label, each in zip(SEGMENTED, parts, strict=True)}


def _schemes_by_label(config: LanguageConfig, longest: int) -> dict[str, tuple[Specification, ...]]:
    """Label to the schemes of successive layers."""
    rotated = {label: label.removesuffix("-rope") for label in ROTARY if label not in ("rope", "nope")}
    return {
        "nope": (Specification("NoPE"),),
        LEARNED: (Specification("Learned", {"sigma": SIGMA}),),
        "sinusoid": (Specification("Sinusoid"),),
        "rope": (Specification("RoPE"),),
        "xpos": (Specification("XPos", {"extent": float(longest)}),),
        "alibi": (Specification("ALiBi"),),
        "t5": (Specification("T5Bias", {"bidirectional": False}),),
        "kerple": (Specification("KERPLELog"),),
        "fire": (Specification("FIRE"),),
        "cope": (Specification("CoPE"),),
        "rope and nope": (*[Specification("RoPE")] * (3 if config.depth >= 4 else 1), Specification("NoPE")),
        **{label: (Specification("VORoPE", {"at": sites}),) for label, sites in rotated.items()},
    }


def variant(
    label: str, config: LanguageConfig, *, longest: int, window: int, separators: tuple[int, ...] = ()
) -> LanguageVariant:
    """The variant of a label: one of the study's names, or any scheme of the catalog as text.

    Args:
        label: Label, alone or with the view of the positions. The ending "-randomized" asks for randomized positions.
        config: Sizes of the model.
        longest: Longest context in testing, in tokens.
        window: Training length in tokens.
        separators: Numbers of the tokens that end a segment, for the labels in ``SEGMENTED``.

    Returns:
        The variant.

    Raises:
        ValueError: The name is unknown (the message gives the nearest known names), or the text has no segments.
    """
    label, view = split_view(label)
    position_views.refuse_view(view, VIEWS)
    label = trained_as(label)
    name = label.removesuffix(RANDOMIZED)
    position_range = RANGE_FACTOR * longest if name != label else None
    if name in SEGMENTED:
        return _segmented(name, config, window, separators, position_range)
    known = _schemes_by_label(config, longest) | _recent_schemes(config, window)
    if name in known:
        return LanguageVariant(config=config, schemes=known[name], position_range=position_range)
    if name.startswith(PREFIX):
        table = Specification("Learned", {"sigma": sigma_of(name)})
        return LanguageVariant(config=config, schemes=(table,), position_range=position_range)
    parsed = parse_layers(name, label, DESCRIPTIONS)
    if len(parsed) > config.depth:
        raise ValueError(
            f"{label!r} has its second encoding in every layer {len(parsed)}, and these models have {config.depth} "
            f"layers. Write every={config.depth}, or --set depth={len(parsed)}."
        )
    for each in parsed:
        _refuse_other_axes(each, config)
    return LanguageVariant(config=config, schemes=parsed, position_range=position_range)


def _segmented(
    label: str, config: LanguageConfig, window: int, separators: tuple[int, ...], position_range: int | None
) -> LanguageVariant:
    """The variant of a label in ``SEGMENTED``. Raises ValueError without separators."""
    if not separators or position_range is not None:
        why = "are never randomized" if separators else f"end at line ends, {NO_SEGMENTS}"
        raise ValueError(f"{label} reads segments, which {why}. Choose another encoding: posenc list variants language")
    rule = SegmentRule(separators=separators, places=max(LONGEST, window))
    schemes = _segmented_schemes(config, rule.places)[label]
    return LanguageVariant(config=msgspec.structs.replace(config, segments=rule), schemes=schemes)


def _refuse_other_axes(scheme: Specification, config: LanguageConfig) -> None:
    """Raise ValueError for a scheme that reads other positions than a sequence."""
    known = {"dim": config.dim, "head_dim": config.head_dim, "heads": config.heads}
    position_views.choose(scheme, known, {"index": sequence(LEAST_MAX_DISTANCE)}, VIEWS)


def reads_segments(label: str) -> bool:
    """True for the labels in ``SEGMENTED``, also with a view of the positions or with randomized positions."""
    return split_view(label)[0].removesuffix(RANDOMIZED) in SEGMENTED


def trained_as(label: str) -> str:
    """Label of the variant that is trained for a label: "rope" if its frequencies are scaled after training."""
    return "rope" if label in SCALED else label
