"""Compatibility check of a scheme with a third-party model, before the model is changed."""

from __future__ import annotations

from posenc.scheme import Scheme


def refuse_sites(scheme: Scheme, can: set[str], what: str, remedy: str = "Choose another scheme: posenc list") -> None:
    """Raise ValueError if a scheme acts at a site that a third-party model does not support.

    Args:
        scheme: The scheme to put into the model.
        can: Sites that the model supports.
        what: First clause of the error, which describes how the model uses positions.
        remedy: Last sentence of the error, without its full stop.

    Raises:
        ValueError: If the scheme acts at another site, or is none.
    """
    if not isinstance(scheme, Scheme):
        got = f"the class {scheme.__name__}" if isinstance(scheme, type) else repr(scheme)
        raise ValueError(f"{what}, and takes a scheme such as NoPE() or RoPE(64); got {got}.")
    beyond = sorted(set(scheme.claims.sites) - can)
    if beyond:
        raise ValueError(
            f"{what} and does nothing else with positions; {type(scheme).__name__} acts at {', '.join(beyond)} too, "
            f"which would be lost. {remedy}"
        )
