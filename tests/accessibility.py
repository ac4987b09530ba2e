"""Faults of accessibility that axe-core finds on an open page of a browser."""

from __future__ import annotations

from typing import Any

IMPACTS = ("serious", "critical")
"""Faults of less impact are advice."""


def faults(page: Any) -> list[str]:
    """Run axe-core on a page.

    Args:
        page: An open page of Playwright.

    Returns:
        One line for each element with a fault of serious or critical impact: rule, selector, start of the element and
        what is wrong.
    """
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']} at {' '.join(map(str, node['target']))}: {node['html'][:120]} "
        + " ".join(node["failureSummary"].split())
        for each in found
        if each["impact"] in IMPACTS
        for node in each["nodes"]
    ]
