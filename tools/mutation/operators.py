"""Mutants of a source file: each is one small change of its syntax tree.

Nothing is mutated that changes no result by its nature: docstrings and texts, annotations, imports, decorators, the
expression of a ``raise``, and the class attributes that describe a scheme (``cite``, ``examples``, ``faults``,
``shown``). A change of the condition of a refusal, or its removal, has a kind of its own.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable, Iterator

ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Mult,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.BitXor: (ast.BitAnd,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
}
LOGICAL = (ast.BitAnd, ast.BitOr, ast.BitXor)
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
MAPS = frozenset(
    (
        "abs", "neg", "sqrt", "rsqrt", "square", "exp", "log", "log1p", "log2", "expm1", "sin", "cos", "tanh",
        "sigmoid", "floor", "ceil", "round", "sign", "clamp", "clip", "flip", "sum", "cumsum", "softmax", "relu",
        "logical_not", "conj", "detach", "double", "float", "long", "bool", "half", "to", "expand", "expand_as",
        "transpose", "unsqueeze", "squeeze", "reshape", "view", "flatten", "contiguous", "masked_fill", "where",
        "neutral", "type_as", "clone", "sorted", "reversed", "tuple", "set", "int", "min", "max"
    )
)  # fmt: skip
"""Functions and methods that may be left out: ``x.abs()`` becomes ``x``, ``sorted(x)`` becomes ``x``."""
MODULES = frozenset({"torch", "torch.linalg", "torch.nn", "nn", "math", "functional", "np", "dataclasses"})
DESCRIBING = frozenset({"cite", "examples", "faults", "shown", "conventions", "__all__"})
TEXTS = frozenset({"__repr__", "_repr_html_", "__str__", "extra_repr"})
REFUSING = ("_refuse", "refuse", "require", "_require", "_warn")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of a source file.

    Attributes:
        file: Path below ``src/posenc``.
        name: Qualified name of the function or class that holds the change; "" at the top of the file.
        kind: Kind of the change, such as "comparison".
        change: The changed source before and after it.
        number: Number of earlier changes of the file with equal name, kind and change.
        line: First line of the statement.
        last: Last line of the statement, without the body of a block.
        index: Number of the change in its file.
    """

    file: str
    name: str
    kind: str
    change: str
    number: int
    line: int
    last: int
    index: int

    @property
    def id(self) -> str:
        """Identity that a change elsewhere in the file leaves as it is."""
        return f"{self.file}::{self.name}::{self.kind}::{self.change}::{self.number}"


@dataclasses.dataclass
class Place:
    """A node of the tree and what encloses it."""

    node: ast.AST
    put: Callable[[ast.AST], None]
    name: str
    line: int
    last: int
    refusal: bool = False
    index: bool = False


Change = tuple[str, ast.AST]
"""Kind, and the new node in place of the old one."""


def mutants(source: str, file: str) -> list[Mutant]:
    """Every mutant of a source file, in its order.

    Args:
        source: Text of the file.
        file: Its path below ``src/posenc``, for the identities.

    Returns:
        The mutants.
    """
    found, counts = list[Mutant](), dict[tuple[str, str, str], int]()
    for index, (place, (kind, new)) in enumerate(_all(ast.parse(source))):
        kind = "refusal" if place.refusal else kind
        key = place.name, kind, f"{_words(place.node)} -> {_words(new)}"
        counts[key] = counts.get(key, -1) + 1
        found.append(Mutant(file, *key, counts[key], place.line, place.last, index))
    return found


def mutated(source: str, index: int) -> ast.Module:
    """The syntax tree of a source file with one change.

    Args:
        source: Text of the file.
        index: Number of the change in the file.

    Returns:
        The changed tree.
    """
    tree = ast.parse(source)
    place, (_, new) = next(each for n, each in enumerate(_all(tree)) if n == index)
    place.put(ast.copy_location(new, place.node))
    return ast.fix_missing_locations(tree)


def _all(tree: ast.Module) -> Iterator[tuple[Place, Change]]:
    for place in list(_places(tree)):
        for change in _changes(place):
            yield place, change


def _places(tree: ast.Module) -> Iterator[Place]:
    yield from _of_block(tree, "body", "", False)


def _of_block(owner: ast.AST, field: str, name: str, refusal: bool) -> Iterator[Place]:
    block: list[ast.stmt] = getattr(owner, field)
    for n, statement in enumerate(block):
        if _is_skipped(statement, name):
            continue

        def put(new: ast.AST, n: int = n) -> None:
            assert isinstance(new, ast.stmt)
            block[n] = new

        yield from _of_statement(statement, put, name, refusal)


def _is_skipped(statement: ast.stmt, name: str) -> bool:
    """True for statements that are never mutated."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return True  # a docstring
    if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
        return True
    if isinstance(statement, ast.FunctionDef):
        return statement.name in TEXTS
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(target, ast.Name) and target.id in DESCRIBING for target in targets)


def _of_statement(node: ast.stmt, put: Callable[[ast.AST], None], name: str, refusal: bool) -> Iterator[Place]:
    blocks = [field for field in ("body", "orelse", "finalbody") if isinstance(getattr(node, field, None), list)]
    inner = [each for field in blocks for each in getattr(node, field)]
    last = max(node.lineno, min((each.lineno for each in inner), default=(node.end_lineno or 0) + 1) - 1)
    own = f"{name}.{node.name}".lstrip(".") if isinstance(node, ast.FunctionDef | ast.ClassDef) else name
    refuses = refusal or _is_refusal(node)
    line = node.lineno
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield Place(node, put, name, line, last, refuses)
    if not isinstance(node, ast.Raise):
        for field in node._fields:
            if field not in (*blocks, "decorator_list", "annotation", "returns", "targets", "target", "bases", "names"):
                yield from _of_field(node, field, own, line, last, refuses)
    for field in blocks:
        yield from _of_block(node, field, own, refusal or (isinstance(node, ast.FunctionDef) and refuses))
    for handler in getattr(node, "handlers", ()):
        yield from _of_block(handler, "body", own, refusal)


def _is_refusal(node: ast.stmt) -> bool:
    """True for a raise, a condition that only raises, a call of a function that refuses, and such a function."""
    if isinstance(node, ast.Raise):
        return True
    if isinstance(node, ast.If):
        return not node.orelse and any(isinstance(each, ast.Raise) for each in node.body)
    if isinstance(node, ast.FunctionDef):
        return node.name.startswith(REFUSING)
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    word = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return word.startswith(REFUSING)


def _of_field(owner: ast.AST, field: str, name: str, line: int, last: int, refusal: bool, index: bool = False):
    """Places of the expressions in a field of a node, each before those inside it."""
    value = getattr(owner, field)
    for n, node in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr | ast.expr_context | ast.operator):
            continue

        def put(new: ast.AST, n: int = n) -> None:
            if isinstance(value, list):
                value[n] = new
            else:
                setattr(owner, field, new)

        inside = index or (isinstance(owner, ast.Subscript) and field == "slice")
        if isinstance(node, ast.expr):
            yield Place(node, put, name, line, last, refusal, inside)
        skipped = ("annotation", "func") if isinstance(node, ast.arg) else ("annotation",)
        deeper = inside and isinstance(node, ast.Tuple | ast.Slice | ast.UnaryOp)
        for inner in node._fields:
            if inner not in skipped:
                yield from _of_field(node, inner, name, line, last, refusal, deeper)


def _changes(place: Place) -> Iterator[Change]:
    node = place.node
    if isinstance(node, ast.stmt):
        yield from _statements(node)
    for make in (_arithmetic, _comparisons, _constants, _calls, _branches, _slices):
        for kind, new in make(node):
            yield "index" if place.index and kind == "constant" else kind, new


def _words(node: ast.AST) -> str:
    """Source of a node in one line, without the body of a block."""
    if isinstance(node, ast.Pass):
        return "nothing"
    head = f"if {ast.unparse(node.test)}: .." if isinstance(node, ast.If) else ""
    head = f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}: .." if isinstance(node, ast.For) else head
    words = head or " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())
    return words if len(words) <= 90 else f"{words[:60]} .. {words[-26:]}"


def _statements(node: ast.stmt) -> Iterator[Change]:
    """Statements that can be removed without a name being left undefined."""
    removed = isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.For)
    removed |= isinstance(node, ast.Assign) and bool(_read(node.value) & _written(node))
    removed |= isinstance(node, ast.If) and not node.orelse and not _is_refusal(node)
    if removed:
        yield "statement", ast.Pass()


def _written(node: ast.Assign) -> set[str]:
    return set().union(*map(_read, node.targets))


def _read(value: ast.AST) -> set[str]:
    return {ast.unparse(each) for each in ast.walk(value) if isinstance(each, ast.Name | ast.Attribute)}


def _arithmetic(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.BinOp | ast.AugAssign):
        if any(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in ast.walk(node)):
            return  # a text or an annotation
        kind = "boolean" if isinstance(node.op, LOGICAL) else "arithmetic"
        for op in ARITHMETIC.get(type(node.op), ()):
            yield kind, _with(node, op=op())
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            yield "term", node.left
            yield "term", node.right
    if isinstance(node, ast.UnaryOp):
        if isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
            yield "sign", node.operand
        if isinstance(node.op, ast.Not | ast.Invert):
            yield "boolean", node.operand
    if isinstance(node, ast.BoolOp):
        yield "boolean", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for n in range(len(node.values)):
            rest = node.values[:n] + node.values[n + 1 :]
            yield "term", rest[0] if len(rest) == 1 else _with(node, values=rest)


def _comparisons(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Compare):
        for n, op in enumerate(node.ops):
            for other in COMPARISONS[type(op)]:
                yield "comparison", _with(node, ops=[*node.ops[:n], other(), *node.ops[n + 1 :]])


def _constants(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if not isinstance(node, ast.Constant) or isinstance(node.value, str | bytes | type(None) | type(Ellipsis)):
        return
    if isinstance(node.value, bool):
        yield "boolean", ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value - 1)
    elif isinstance(node.value, float):
        yield "constant", ast.Constant(node.value + 1)
        yield "constant", ast.Constant(node.value * 2)


def _calls(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Calls without one argument, and the argument in place of a call that maps it."""
    if not isinstance(node, ast.Call):
        return
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    word = method or (node.func.id if isinstance(node.func, ast.Name) else "")
    if word in ("Claims", "TypeVar", "field", "super", "isinstance", "ValueError", "TypeError", "warn"):
        return
    for n, keyword in enumerate(node.keywords):
        if keyword.arg is not None and keyword.arg not in ("strict", "device", "stacklevel"):
            yield "argument", _with(node, keywords=node.keywords[:n] + node.keywords[n + 1 :])
    on_module = not method or ast.unparse(node.func).rpartition(".")[0] in MODULES
    if not on_module and len(node.args) > 1 and not isinstance(node.args[-1], ast.Starred):
        yield "argument", _with(node, args=node.args[:-1])
    if word in MAPS:
        if not on_module:
            assert isinstance(node.func, ast.Attribute)
            yield "call", node.func.value
        elif node.args and not isinstance(node.args[0], ast.Starred):
            yield "call", node.args[0]


def _branches(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.IfExp):
        yield "branch", _with(node, body=node.orelse, orelse=node.body)
        yield "branch", node.body
        yield "branch", node.orelse


def _slices(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Slice):
        for field in ("lower", "upper", "step"):
            if getattr(node, field) is not None:
                yield "index", _with(node, **{field: None})


def _with(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node with other fields; what it holds is shared."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new
