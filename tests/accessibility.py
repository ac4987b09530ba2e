"""Faults of accessibility that axe-core finds on an open page of a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

IMPACTS = ("serious", "critical")
"""Faults of less impact are advice."""


def faults(page: Any, allowed: Mapping[str, str] | None = None) -> list[str]:
    """Run axe-core on a page.

    Args:
        page: An open page of Playwright.
        allowed: Name of a rule to the end of the selector of the elements that may break it.

    Returns:
        One line for each element with a fault of serious or critical impact: rule, selector, start of the element and
        what is wrong.
    """
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [line for each in found if each["impact"] in IMPACTS for line in _lines(each, allowed or {})]


def _lines(violation: Mapping[str, Any], allowed: Mapping[str, str]) -> Iterator[str]:
    for node in violation["nodes"]:
        selector = " ".join(map(str, node["target"]))
        end = allowed.get(violation["id"])
        if end is None or not selector.endswith(end):
            words = " ".join(node["failureSummary"].split())
            yield f"{violation['id']} at {selector}: {node['html'][:120]} {words}"
