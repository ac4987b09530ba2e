"""Digests of the source files that decide a result: the procedure of a run, its encodings, and what they import.

The files are found by reading import statements, without importing. Modules that draw, store, plan or schedule are left
out (``EXCLUDED``), so an edited page changes no digest. A digest is of the syntax tree without docstrings, so comments
and formatting change none either. A new encoding in the catalog changes no digest of the others. Of an import from the
package a digest contains the module's own name without its folder, so a file that moves changes none, as long as the
statements that import it stay as many and in their order.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

PACKAGE = "posenc"
FOLDER = Path(__file__).parents[2]
DIGITS = 16
EXCLUDED = (
    "posenc.cli", "posenc.contract", "posenc.lookup.cited_functions", "posenc.lookup.moved",
    "posenc.lookup.name_suggestion", "posenc.version", "posenc.workbench.commands", "posenc.workbench.dataset_record",
    "posenc.workbench.executors", "posenc.workbench.files.atomic_files", "posenc.workbench.files.file_digests",
    "posenc.workbench.files.output_files", "posenc.workbench.files.user_files", "posenc.workbench.memory",
    "posenc.workbench.notebook_display", "posenc.workbench.progress", "posenc.workbench.provenance",
    "posenc.workbench.report", "posenc.workbench.request_checks", "posenc.workbench.request_execution",
    "posenc.workbench.request_options", "posenc.workbench.runner", "posenc.workbench.runs",
    "posenc.workbench.setting_errors", "posenc.workbench.storage", "posenc.workbench.study_result",
    "posenc.workbench.tables", "posenc.workbench.tensorboard", "posenc.workbench.training.checkpoint",
    "posenc.workbench.variant_labels", "posenc.workbench.worker",
)  # fmt: skip
"""Modules that decide no result: they draw, store, check, plan or schedule."""
NOT_OF_RUNS = re.compile(
    r"posenc\.workbench\.studies(\.\w+)*\.(claims|panels|parts|presets|conditions|settings|headline|\w+_panels?|\w*plots|"
    r"study|study_page|page_data|page_file|page_records|planning|stored_runs|declarations|changes|written_schemes|written_differences)"
)
"""Modules of studies that declare, plan or draw. What they decide stands in the settings of a run."""
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
WORD = re.compile(r"[A-Za-z_]\w*")


class SourceDigests:
    """Digests of the source files of runs. Each file is read once, when it is first needed.

    Args:
        folder: Folder of the package.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self._files: dict[str, tuple[str, frozenset[str]] | None] = {}
        self._closures: dict[str, frozenset[str]] = {}
        self._runs: dict[tuple[str, ...], dict[str, str]] = {}
        self._classes: dict[str, str] | None = None

    def of_run(self, entry: str, settings: Any, codes: Mapping[str, str]) -> dict[str, str]:
        """Digests of the files that decide the result of a run.

        Args:
            entry: "module:function" of its procedure.
            settings: Its settings, which name its encodings.
            codes: Name to code of the user's own encodings, which is part of the settings by its digest.

        Returns:
            Module to digest; empty if the procedure has no source file, as in a notebook.
        """
        module = entry.partition(":")[0]
        words = {word for text in _texts(settings) for word in WORD.findall(text)}
        encodings = sorted({self.classes[word] for word in words & self.classes.keys()})
        own = sorted(words & codes.keys())
        key = (module, *encodings, *own)
        if key not in self._runs:
            imported = {name for each in own for name in self._imports(ast.parse(codes[each]), "")}
            self._runs[key] = self._digests([module, *encodings, *sorted(imported)])
        return self._runs[key]

    @property
    def classes(self) -> Mapping[str, str]:
        """Class of an encoding in the catalog to the module that defines it."""
        if self._classes is None:
            self._classes = {
                name: f"{PACKAGE}.schemes.{path.stem}"
                for path in sorted((self.folder / "schemes").glob("*.py"))
                for name in CLASS.findall(path.read_text(encoding="utf-8"))
            }
        return self._classes

    def _digests(self, roots: list[str]) -> dict[str, str]:
        if self._read(roots[0]) is None:
            return {}
        modules = sorted(set().union(*(self._closure(root) for root in roots)))
        return {_shown(module): file[0] for module in modules if (file := self._read(module)) is not None}

    def _closure(self, root: str) -> frozenset[str]:
        """A module with all modules that it imports, directly or not."""
        if root not in self._closures:
            found, todo = set[str](), [root]
            while todo:
                module = todo.pop()
                if module in found or (file := self._read(module)) is None:
                    continue
                found.add(module)
                todo += file[1]
            self._closures[root] = frozenset(found)
        return self._closures[root]

    def _read(self, module: str) -> tuple[str, frozenset[str]] | None:
        """Digest of a module and the modules that it imports; None for a module without a source file here."""
        if module not in self._files:
            path = self._path(module)
            try:
                tree = None if path is None else ast.parse(path.read_bytes())
            except (OSError, SyntaxError, ValueError):
                tree = None
            if path is None or tree is None:
                self._files[module] = None
            else:
                beside = "" if module.startswith(PACKAGE + ".") else str(path.parent)
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                imports = frozenset(self._imports(tree, package, beside))
                self._files[module] = _digest(self._without_folders(tree, package)), imports
        return self._files[module]

    def _without_folders(self, tree: ast.Module, package: str) -> ast.Module:
        """A module whose imports from the package name modules without their folders."""
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and _base(node, package).split(".")[0] == PACKAGE:
                base = _base(node, package)
                are_modules = all(self._path(f"{base}.{alias.name}") is not None for alias in node.names)
                node.module, node.level = "" if are_modules else base.rpartition(".")[2], 0
        return tree

    def _path(self, module: str) -> Path | None:
        if module.startswith(PACKAGE + "."):
            parts = module.split(".")[1:]
            paths = (self.folder.joinpath(*parts).with_suffix(".py"), self.folder.joinpath(*parts, "__init__.py"))
            return next((path for path in paths if path.is_file()), None)
        folder, slash, name = module.rpartition("/")
        if slash:
            path = Path(folder) / f"{name}.py"
            return path if path.is_file() else None
        loaded = getattr(sys.modules.get(module), "__file__", None)
        try:
            spec = None if loaded else importlib.util.find_spec(module)
        except (ImportError, ValueError, AttributeError):
            spec = None
        origin = loaded or (spec.origin if spec else None)
        return Path(origin) if origin and origin.endswith(".py") else None

    def _imports(self, tree: ast.Module, package: str, beside: str = "") -> Iterator[str]:
        """Modules that a module imports, also inside functions: of the package, or in the folder of a user's file."""
        for name in _imported(tree, package):
            if name.startswith(PACKAGE + "."):
                parent, _, last = name.rpartition(".")
                module = name if self._path(name) is not None else parent
                if module == PACKAGE:  # from posenc import RoPE
                    module = self.classes.get(last, "")
                if module and not _is_excluded(module):
                    yield module
            elif beside and (Path(beside) / f"{name.split('.')[0]}.py").is_file():
                yield f"{beside}/{name.split('.')[0]}"


def digest_of(digests: Mapping[str, str]) -> str:
    """Key of the digests of some files, which does not depend on where the files are.

    Args:
        digests: Module to digest.

    Returns:
        Hexadecimal digits; "" without files.
    """
    lines = "\n".join(sorted(digests.values()))
    return hashlib.sha256(lines.encode()).hexdigest()[:DIGITS] if digests else ""


def first_digest_of(digests: Mapping[str, str]) -> str:
    """Key of the first form, which also depended on where the files are. Stores of that form have it.

    Args:
        digests: Module to digest.

    Returns:
        Hexadecimal digits; "" without files.
    """
    lines = "\n".join(f"{module} {digest}" for module, digest in sorted(digests.items()))
    return hashlib.sha256(lines.encode()).hexdigest()[:DIGITS] if digests else ""


def _shown(module: str) -> str:
    """Name of a module without the folder of one machine."""
    return module.rpartition("/")[2]


def _is_excluded(module: str) -> bool:
    inside = any(module == each or module.startswith(each + ".") for each in EXCLUDED)
    return inside or NOT_OF_RUNS.fullmatch(module) is not None


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names in the import statements of a module, except those for type checkers."""
    for node in _executed(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{_base(node, package)}.{alias.name}" for alias in node.names)


def _base(node: ast.ImportFrom, package: str) -> str:
    """Dotted name of the module from which a statement imports."""
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base]).rstrip(".")
    return base


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those below ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if not _is_for_type_checkers(child):
            yield child
            yield from _executed(child)


def _is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _digest(tree: ast.Module) -> str:
    parts: list[str] = []
    _write(tree, parts.append)
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:DIGITS]


def _write(value: Any, write: Any) -> None:
    """Write a syntax tree in a form that is the same in every version of Python: without positions and empty fields."""
    if isinstance(value, ast.AST):
        if _is_for_type_checkers(value) or (isinstance(value, ast.Expr) and _is_docstring(value)):
            return
        write(f"({type(value).__name__}")
        for name in value._fields:
            field = getattr(value, name, None)
            if field is not None and field != [] and name not in ("ctx", "kind", "type_comment"):
                write(name)
                _write(field, write)
        write(")")
    elif isinstance(value, list):
        for each in value:
            _write(each, write)
        write(";")
    else:
        write(repr(value))


def _is_docstring(node: ast.Expr) -> bool:
    """A text that stands alone: a docstring, or the description of a constant."""
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _texts(value: Any) -> Iterator[str]:
    """Every text in plain JSON, except names of settings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, Iterable):
        for each in value:
            yield from _texts(each)
