"""Compatibility check of a scheme with a third-party model, before the model is changed."""

from __future__ import annotations

from posenc.scheme import Scheme


def refuse_sites(scheme: Scheme, can: set[str], what: str) -> None:
    """Refuses a scheme that acts at sites outside ``can``; ``what`` is the first clause of the error.

    Args:
        scheme: The scheme to put into the model.
        can: Sites that the model supports.
        what: Description of the model's use of positions.

    Raises:
        ValueError: If the scheme acts at another site.
    """
    beyond = sorted(set(scheme.claims.sites) - can)
    if beyond:
        raise ValueError(
            f"{what} and does nothing else with positions; {type(scheme).__name__} acts at {', '.join(beyond)} too, "
            "which would be lost. Choose another scheme: posenc list"
        )
