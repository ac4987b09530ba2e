"""Error messages about changed settings, which the command line raises before torch is loaded, and a study after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from posenc.lookup.name_suggestion import unknown

COMPUTED = "computed"
"""Default of a setting that a study computes from other settings or from the data."""
PLURALS = ("whole numbers", "numbers")


def no_assignment(text: str) -> str:
    """Message for a text that is not NAME=VALUE.

    Args:
        text: The text.

    Returns:
        One sentence.
    """
    return f"--set takes NAME=VALUE, such as --set epochs=4; got {text!r}."


def wrong_type(name: str, kind: str, value: object, default: str) -> str:
    """Message for a value of another type.

    Args:
        name: Name of the setting.
        kind: Description of the type, such as "whole number or none".
        value: The value.
        default: Value of the preset.

    Returns:
        Two sentences.
    """
    article = "a " if kind.startswith(("whole number", "number")) and not kind.startswith(PLURALS) else ""
    return f"{name} must be {article}{kind}; got {value!r}. {example(name, default)}"


def unknown_name(name: str, value: object, names: Sequence[str]) -> str:
    """Message for a text that is none of the texts that a setting may have.

    Args:
        name: Name of the setting.
        value: The text.
        names: The possible texts.

    Returns:
        Two or three sentences.
    """
    return f"{unknown(name, str(value), names)} Choose one of {', '.join(names)}."


def negative(name: str, value: object, default: str) -> str:
    """Message for a number that is negative or not finite.

    Args:
        name: Name of the setting.
        value: The number.
        default: Value of the preset.

    Returns:
        Two sentences.
    """
    return f"{name} must be finite and not negative; got {value}. {example(name, default)}"


def too_small(name: str, value: object, default: str) -> str:
    """Message for a count of 0.

    Args:
        name: Name of the setting.
        value: The number.
        default: Value of the preset.

    Returns:
        Two sentences.
    """
    return f"{name} must be at least 1; got {value}. {example(name, default)}"


def example(name: str, default: str) -> str:
    """Sentence with the value of the preset.

    Args:
        name: Name of the setting.
        default: Value of the preset.

    Returns:
        The sentence.
    """
    if default == COMPUTED:
        return "Without --set the study computes it."
    return f"The preset has {name}={default}."


def varied(settings: Mapping[str, Sequence[str]]) -> str:
    """Message for changed settings that panels vary.

    Args:
        settings: Panel to the changed settings that it varies, as dotted paths; all panels of the request.

    Returns:
        Two sentences; "" if no panel varies any.
    """
    panel = next((panel for panel, names in settings.items() if names), "")
    if not panel:
        return ""
    others = [each for each, names in settings.items() if not names]
    instead = f"others: --panels {' '.join(others)}." if others else "another panel, or leave the change out."
    named = " and ".join(name.rpartition(".")[2] for name in settings[panel])
    return f"the panel {panel} varies {named} itself. Choose {instead}"


def ambiguous(name: str, settings: Sequence[str]) -> str:
    """Message for a name that several settings share.

    Args:
        name: The name.
        settings: The settings, by the names that tell them apart.

    Returns:
        Two sentences.
    """
    return f"several settings are named {name!r}: {', '.join(settings)}. Name one of them."


def same_setting(name: str, other: str) -> str:
    """Message for two names of one setting with different values.

    Args:
        name: One name.
        other: The other name.

    Returns:
        Two sentences.
    """
    return f"{name} and {other} are the same setting. Give one value."
