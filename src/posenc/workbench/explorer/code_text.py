"""Python code that makes an encoding, to be copied from the page."""

from __future__ import annotations

import inspect
import re
from typing import Any

from posenc.lookup import own_scheme
from posenc.lookup.name_suggestion import plain_name
from posenc.lookup.scheme_text import Specification, call_text, find, schedules, specifications


def code_of(call: Specification) -> str:
    """Write the code that makes the encoding of a call.

    Args:
        call: The call.

    Returns:
        Import statements and one assignment.
    """
    text, names, own = call_text(_with_counts(call)), set[str](), dict[str, str]()
    for each in specifications(call):
        kind = find(each.scheme)
        if (source := own_scheme.source(kind.__name__)) is None:
            names.add(kind.__name__)
            continue
        plain = own_name(kind.__name__)
        text = text.replace(kind.__name__, plain)
        own[plain] = source.path.stem if source.path else source.name.partition(":")[0]
    schedules = sorted(set(re.findall(r"\bfrequencies=([a-z]\w*)\(", text)))
    lines = [f"from posenc import {', '.join(sorted(names))}"] if names else []
    lines += [f"from posenc.frequencies import {', '.join(schedules)}"] if schedules else []
    lines += [f"from {module} import {name}" for name, module in sorted(own.items())]
    return "\n".join(lines) + f"\n\nscheme = {text}\n"


def _with_counts(call: Specification) -> Specification:
    """The call with the number of frequencies that text may leave out of a schedule."""
    count = call.options.get("head_dim", 0) // 2
    return Specification(call.scheme, {name: _counted(value, count) for name, value in call.options.items()})


def _counted(value: Any, count: int) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_counted(each, count) for each in value)
    if isinstance(value, dict) and "scheme" in value:
        part = _with_counts(Specification(value["scheme"], value["options"]))
        return {"scheme": part.scheme, "options": part.options}
    if isinstance(value, dict) and "count" in inspect.signature(schedules()[plain_name(value["schedule"])]).parameters:
        return {**value, "options": {"count": count, **value["options"]}}
    return value


def own_name(name: str) -> str:
    """Return the name of a class of one's own as its file has it.

    Args:
        name: The name that ``posenc.lookup.own_scheme`` gives it, or any other name.

    Returns:
        The name without the digest of its code.
    """
    return name.rpartition("_")[0] if own_scheme.source(name) else name
