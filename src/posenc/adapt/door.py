"""What a foreign model has no place for is refused before anything is changed."""

from __future__ import annotations

from posenc.scheme import Scheme


def refuse_sites(scheme: Scheme, can: set[str], what: str) -> None:
    beyond = sorted(set(scheme.claims.sites) - can)
    if beyond:
        raise ValueError(
            f"{what} and does nothing else with positions; {type(scheme).__name__} acts at {', '.join(beyond)} too, "
            "which would be lost. Choose another scheme: posenc list"
        )
