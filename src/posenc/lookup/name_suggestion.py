"""Nearest known names for a misspelled one. Imports the standard library alone, so the command line starts fast."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

ENCODING = "encoding"
"""Kind of the names in ``posenc list``."""
VARIANT = "variant"
"""Kind of the names in ``posenc list variants``."""
LONGEST = 100
"""Number of characters of a name up to which it may be a file without its ending."""
OTHER_NAMES = {
    "comrope": "posenc show \"LieRE(64, axes=2, commuting='linearly dependent')\"",
    "forgetting": "posenc show FoX",
    "forgettingtransformer": "posenc show FoX",
    "gemma4": 'posenc show "RoPE(64, frequencies=proportional(share=0.25))"',
    "inkling": "posenc show RelativeLogits",
    "instantngp": "posenc show MultiResolutionGrid",
    "interleaved": 'a recipe by layer, posenc run language --schemes "interleaved(RoPE, NoPE, every=2)"',
    "irope": 'a recipe by layer, posenc run language --schemes "rope-chunks and nope"',
    "llama4": 'a recipe by layer, posenc run language --schemes "rope-chunks and nope", and posenc show Temperature',
    "mrope": "posenc show SectionedRoPE",
    "nerf": "posenc show Sinusoid",
    "prope": 'posenc show "RoPE(64, frequencies=proportional(share=0.25))"',
    "rnope": 'a recipe by layer, posenc run language --schemes "rope-window and nope"',
    "videorope": "posenc show SectionedRoPE, with the positions of posenc.video_rope",
    "wav2vec": "posenc show ConvPE",
    "wav2vec2": "posenc show ConvPE",
}
"""Plain names from papers and models that are no names here, and the command that shows what they are."""
FARTHER = 0.25
"""A name is suggested beside the nearest one if its similarity is less than this below it."""


def plain_name(name: str) -> str:
    """Return a name in lower case without hyphens and underscores, as names are compared."""
    return name.lower().replace("-", "").replace("_", "")


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most similar to a name, the nearest first; none if no name is similar."""
    plain = {plain_name(other): other for other in known}
    matches = difflib.get_close_matches(plain_name(name), plain, 3, 0.5)
    alike = [difflib.SequenceMatcher(None, match, plain_name(name)).ratio() for match in matches]
    if 1.0 in alike:  # it differs in case, hyphens and underscores alone
        return [plain[plain_name(name)]]
    return [plain[match] for match, ratio in zip(matches, alike, strict=True) if ratio > max(alike) - FARTHER]


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown name, with the nearest known names.

    Args:
        kind: Kind of the name, such as "study". For an "encoding" the message lists all known names.
        name: The unknown name.
        known: Known names.

    Returns:
        One to three sentences.
    """
    known = list(known)
    near = nearest_names(name, known)
    if kind in (ENCODING, VARIANT) and name[:LONGEST].isidentifier() and Path(f"{name[:LONGEST]}.py").is_file():
        near = [f"the file {name}.py"]
    elif kind in (ENCODING, VARIANT) and plain_name(named := name[:LONGEST].partition("(")[0]) in OTHER_NAMES:
        return f"there is no {kind} {named!r}. Here it is {OTHER_NAMES[plain_name(named)]}."
    if kind == ENCODING and all(part.isidentifier() for part in name[:LONGEST].split(".")) and "." in name:
        near = [f"a class of a module, {name}:CLASS"]
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    listed = f" The encodings are {', '.join(known)}." if kind == ENCODING else ""
    return f"there is no {kind} {name!r}.{hint}{listed}"


def unknown_option(called: str, option: str, known: Iterable[str]) -> str:
    """Return the error message for an unknown option of a scheme or schedule.

    Args:
        called: Name of the scheme or schedule.
        option: The unknown option.
        known: Options that it takes.

    Returns:
        Two or three sentences.
    """
    known = list(known)
    return f"{called}: {unknown('option', option, known)} It takes {', '.join(known) or 'none'}."


def unreadable_call(text: str) -> str:
    """Return the error message for a text that is neither a name nor a call.

    Args:
        text: The text.

    Returns:
        Two sentences.
    """
    return f"{text!r} cannot be read. Write Name or Name(option=value)."


def unknown_variant(name: str, variants: Iterable[str], encodings: Iterable[str]) -> str:
    """Return the error message for the unknown name of a variant: the nearest names, then all possible ones.

    Args:
        name: The unknown name.
        variants: Labels of the study's variants.
        encodings: Names of all encodings, which are possible too.

    Returns:
        Three or four sentences.
    """
    variants, encodings = list(variants), list(encodings)
    return (
        f"{unknown(VARIANT, name, [*encodings, *variants])} The variants are {', '.join(variants)}. An encoding with "
        f'its options is possible too, such as "Shaw(values=False)"; the encodings are {", ".join(encodings)}.'
    )
