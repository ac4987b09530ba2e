"""Schemes of the user on a page: where their code comes from, its digest, and the outcome of their contract."""

from __future__ import annotations

from collections.abc import Sequence

from posenc.workbench.report.page import Panel, Table
from posenc.workbench.storage.own_scheme_records import OwnSchemeRecord


def own_schemes_panel(records: Sequence[OwnSchemeRecord]) -> Panel | None:
    """Show the source, the digest and the contract of each of the user's schemes.

    Args:
        records: Their records.

    Returns:
        The panel; None without schemes of the user.
    """
    if not records:
        return None
    rows = tuple((each.name, each.source, each.digest, each.contract) for each in records)
    caption = "The digest is that of the class and of the code that it uses. Another digest is another run."
    table = Table("Sources", ("scheme", "source", "sha256 of the code", "contract (posenc check)"), rows, prose=True)
    return Panel("Your own schemes", (table,), caption)


def failed_contracts(records: Sequence[OwnSchemeRecord]) -> list[str]:
    """Describe the schemes that fail their contract.

    Args:
        records: Records of the user's schemes.

    Returns:
        One sentence for each.
    """
    return [
        f"{each.name} fails its contract ({', '.join(each.failed)}): what it computes may differ from what it claims."
        for each in records
        if each.failed
    ]
