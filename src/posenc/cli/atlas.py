"""The atlas: ``list``, ``check``, ``cite``, ``new``."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import keyword
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tyro.conf import Positional

from posenc.cli.terminal import console

if TYPE_CHECKING:
    from posenc.contract import Report


def list_schemes(format: Literal["table", "json"] = "table", unbounded: bool = False, axes: int | None = None) -> int:
    """Every encoding with its measured claims.

    Try:

    posenc list

    posenc list --unbounded --axes 2

    posenc list --format json

    Args:
        format: table or json.
        unbounded: Only those that take any position.
        axes: Only those that can take positions of so many axes.
    """
    rows = [row for row in claims_of_all() if not unbounded or row["range"] is None]
    rows = [row for row in rows if axes is None or axes in row["axes"] or "any" in row["axes"]]
    if format == "json":
        print(json.dumps(rows, indent=2))
        return 0
    from rich.table import Table

    from posenc.contract.case import range_in_words

    table = Table(*("name", "says", "translation", "learned", "range", "axes", "sites", "sharing"), box=None)
    for row in rows:
        limits = range_in_words(row["range"], "any position")
        table.add_row(
            row["name"], row["summary"], row["translation"], "yes" if row["learned"] else "no", limits,
            ", ".join(map(str, row["axes"])), ", ".join(row["sites"]) or "none", row["sharing"],
        )  # fmt: skip
    console().print(table)
    return 0


def check(what: Positional[str], compiling: bool = False, all: bool = False) -> int:
    """Run the contract on an encoding, one of ours by name or every one in your own file, and say what to mend first.

    Try:

    posenc check RoPE

    posenc check my_scheme.py --all

    Args:
        what: A name of posenc list, or a Python file.
        compiling: Also the slow checks that call torch.compile.
        all: Every failure, and not the first alone.
    """
    from posenc import specification
    from posenc.contract import check as run_contract

    schemes = _schemes_in(Path(what)) if what.endswith(".py") else [specification.find(what)]
    failed = False
    for scheme in schemes:
        found = run_contract(scheme, compiling=compiling)
        print(f"{scheme.__name__}: {found if all else _first(found)}")
        failed = failed or not found.ok
    return int(failed)


def _first(found: Report) -> str:
    """The failure to mend first; most others are what follows from it."""
    first, others = found.next, len(found.failures) - 1
    if first is None:
        return found.counted
    if first.unwritten:
        return f"{found.counted}\n  write next: {first.trouble}"
    more = f"\n  {others} more failed, which may follow from it: --all" if others else ""
    return f"{found.counted}\n  mend next: {first.check}: {first.case}: {first.trouble}{more}"


def cite(names: Positional[tuple[str, ...]]) -> int:
    """The BibTeX entries of encodings, each once.

    Try:

    posenc cite rope gridpe > encodings.bib

    Args:
        names: Names of posenc list.
    """
    from posenc import specification

    if not names:
        raise ValueError("nothing was named. Write posenc cite rope gridpe, or see posenc list.")
    entries = {kind: kind.cite.strip() for kind in map(specification.find, names)}
    for kind, entry in entries.items():
        if not entry:
            print(f"{kind.__name__} has no paper of its own; cite posenc.", file=sys.stderr)
    print("\n\n".join(dict.fromkeys(filter(None, entries.values()))))
    return 0


def new(name: Positional[str], to: Path | None = None) -> int:
    """A file with the skeleton of an encoding of your own, of which posenc check says what to write next.

    Try:

    posenc new my_scheme && posenc check my_scheme.py

    Args:
        name: In snake case; the class is called the same in capitals and lower case.
        to: The file; NAME.py otherwise.
    """
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} cannot name a Python file and class. Use letters, digits and _, as my_scheme.")
    path = to or Path(f"{name}.py")
    if path.exists():
        raise ValueError(f"{path} is there already and is left as it is. Choose another name, or --to FILE.")
    path.write_text(SKELETON.replace("MyScheme", "".join(word.capitalize() for word in name.split("_"))))
    print(f"{path}\nNext: posenc check {path}")
    return 0


SKELETON = '''"""One sentence that says what this encoding does; posenc list shows it.

    the formula, with the symbols of the paper

Source: who, when, where, which equations. Conventions: what the paper leaves open and what was chosen.
"""

from __future__ import annotations

import torch
from posenc import Claims, Positions, Scheme


class MyScheme(Scheme):
    """Rows of width ``dim``. dim: of the rows. scale: say what every argument does, with its unit."""

    cite = ""
    examples = ({"dim": 12}, {"dim": 12, "scale": 0.5})

    def __init__(self, dim: int, scale: float = 1.0) -> None:
        super().__init__()
        self.dim, self.scale = dim, scale
        self.claims = Claims(  # every one is measured, and a wrong one named
            translation="none",
            isometric=False,
            learned=False,
            range=None,
            axes=1,
            sites=frozenset({"embed"}),
            sharing="model",
            cacheable=True,
        )

    @property
    def out_dim(self) -> int:
        return self.dim

    def prepare(self, pos: Positions) -> torch.Tensor:
        """What depends on positions alone; ``_take`` refuses what the claims leave out."""
        self._take(pos)
        raise NotImplementedError("prepare: make the rows here, zero for tokens without a place (pos.placed)")

    def embed(self, where: torch.Tensor) -> torch.Tensor:
        return where

    def define_embed(self, p: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("define_embed: the formula for one position, loops allowed, float64")
'''


def claims_of_all() -> list[dict[str, Any]]:
    """One row a scheme, from its examples: what they claim in common, and the numbers of axes that they take."""
    from posenc.schemes import catalogue

    rows = []
    for name, kind in catalogue().items():
        claims = [kind(**options).claims for options in kind.examples]
        first = dataclasses.asdict(claims[0])
        rows.append(
            {
                "name": name,
                "summary": (sys.modules[kind.__module__].__doc__ or "").split("\n")[0],
                "file": Path(sys.modules[kind.__module__].__file__ or "").name,
                **first,
                "axes": sorted({claim.axes or "any" for claim in claims}, key=str),
                "sites": sorted(set().union(*(claim.sites for claim in claims))),
            }
        )
    return rows


def _schemes_in(path: Path) -> list[Any]:
    from posenc.schemes import schemes_in

    name = f"file:{path.stem}"  # no module's own name: a random.py of somebody's must not stand for the real one
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"there is no file {path}. Give a Python file with a class that subclasses posenc.Scheme.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where pickle looks for its classes
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    found = list(schemes_in(module).values())
    if not found:
        raise ValueError(f"{path} defines no scheme. Subclass posenc.Scheme and write its abstract `prepare`.")
    return found
