"""Writes `src/posenc/__init__.pyi`: the names that posenc finds by walking its schemes, for editors and type checkers.

    python tools/stub.py            writes it
    python tools/stub.py --check    exit code 1, and a sentence, where writing would change it

Nothing in it is written by hand: it comes from `posenc/__init__.py` and from walking `posenc/schemes`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "posenc"
STUB = PACKAGE / "__init__.pyi"
HEADER = '"""The face of posenc, schemes included. Generated: python tools/stub.py"""\n\n'


def main() -> int:
    parser = argparse.ArgumentParser(description="Write src/posenc/__init__.pyi.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where it would change")
    chosen = parser.parse_args()
    sys.path.insert(0, str(PACKAGE.parent))
    stub = render((PACKAGE / "__init__.py").read_text(encoding="utf-8"), scheme_modules())
    if chosen.check:
        trouble = stale(STUB.read_text(encoding="utf-8") if STUB.exists() else "", stub)
        print(trouble or "src/posenc/__init__.pyi is up to date.", file=sys.stderr if trouble else sys.stdout)
        return 1 if trouble else 0
    STUB.write_text(stub, encoding="utf-8")
    return 0


def scheme_modules() -> dict[str, str]:
    """Every scheme of the catalogue and the module that defines it."""
    catalogue = importlib.import_module("posenc.schemes").catalogue()
    return {name: scheme.__module__ for name, scheme in catalogue.items()}


def render(face: str, schemes: dict[str, str]) -> str:
    """The stub of a face: what its source imports or fetches by name from posenc's modules, and the schemes."""
    found = {**explicit(face), **schemes}
    # isort's order within a module: constants, classes, the rest
    lines = sorted((module, not name.isupper(), name[0].islower(), name) for name, module in found.items())
    return HEADER + "".join(f"from {module} import {name} as {name}\n" for module, _, _, name in lines)


def explicit(face: str) -> dict[str, str]:
    """Name to module: ``from posenc.x import y`` and ``import_module("posenc.x").y`` for the names in ``__all__``.

    Raises ValueError for a name in ``__all__`` that comes in neither way.
    """
    tree = ast.parse(face)
    public = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("posenc."):
            found |= {alias.asname or alias.name: str(node.module) for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Call) and node.value.args:
            module = node.value.args[0]
            if isinstance(module, ast.Constant) and str(module.value).startswith("posenc."):
                found[node.attr] = str(module.value)
    for name in public:
        if name not in found:
            raise ValueError(
                f"posenc/__init__.py has {name!r} in __all__ and imports it from nowhere in posenc. "
                f"Write `from posenc.module import {name}`, or take it out of __all__."
            )
    return {name: found[name] for name in public}


def stale(written: str, fresh: str) -> str:
    """A sentence for a stub that is not what would be written now, naming the lines; empty where it is."""
    if written == fresh:
        return ""
    changed = sorted(filter(None, set(written.splitlines()) ^ set(fresh.splitlines())))
    example = f", for one {changed[0]!r}" if changed else ""
    return f"src/posenc/__init__.pyi is not up to date ({len(changed)} lines differ{example}): python tools/stub.py"


if __name__ == "__main__":
    sys.exit(main())
