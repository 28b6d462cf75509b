"""Expressions that a ``.pt2`` file holds as text: torch evaluates them as Python, so only arithmetic on sizes may stand there."""

from __future__ import annotations

import ast
import re

_LONGEST = 20_000
_POWERS = 3  # each may multiply the digits of a number by its exponent
_EXPONENT = 64
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_PLAIN = re.compile(r"[^\"'\\\x00-\x1f\x7f]*")

# SymPy's constructors, as its srepr writes them, and torch's own functions of sizes.
_SYMBOLIC = frozenset(
    "Symbol Integer Float Rational Add Mul Mod Max Min Equality Unequality Eq Ne StrictLessThan LessThan StrictGreaterThan "
    "GreaterThan Lt Le Gt Ge And Or Not Piecewise ExprCondPair Tuple floor ceiling Abs sign FloorDiv ModularIndexing Where "
    "PythonMod CleanDiv CeilToInt FloorToInt CeilDiv FloatTrueDiv IntTrueDiv IsNonOverlappingAndDenseIndicator TruncToFloat "
    "TruncToInt RoundToInt RoundDecimal ToFloat Identity sqrt exp log BooleanTrue BooleanFalse".split()
)
_POWER_CALLS = frozenset(("Pow", "PowByNatural", "FloatPow", "LShift", "RShift"))
_TEXT_CALLS = frozenset(("Symbol", "Integer", "Float"))
_CONSTANTS = frozenset("true false oo zoo nan int_oo pi E Infinity NegativeInfinity NaN".split())

# Functions of the generated check of a program's inputs.
_GUARD_CALLS = frozenset(
    "max min abs len bool int float round math.floor math.ceil math.trunc math.isnan math.sqrt math.log math.exp not_ "
    "FloorDiv Mod PythonMod Max Min Eq Ne torch.sym_max torch.sym_min torch.sym_not torch.sym_ite torch.sym_float".split()
)
_GUARD_METHODS = frozenset(("size", "stride", "dim", "numel", "storage_offset"))
_GUARD_NAMES = frozenset(("L", "math", "torch", "inf", "True", "False", "None"))


def is_identifier(text: str) -> bool:
    r"""Whether a name may stand in generated source as it is.

    >>> is_identifier("linear_1"), is_identifier("x):\n import os #")
    (True, False)
    """
    return _IDENTIFIER.fullmatch(text) is not None


def is_plain(text: str) -> bool:
    """Whether text may stand between quotes in generated source: it holds no quote, backslash or control character."""
    return _PLAIN.fullmatch(text) is not None


def is_symbolic(text: str) -> bool:
    """Whether `text` is arithmetic on symbols, in SymPy's srepr or as it reads.

    >>> is_symbolic("Add(Symbol('s0', integer=True), Integer(1))"), is_symbolic("__import__('os').getpid()")
    (True, False)
    """
    tree = _parsed(text)
    return tree is not None and _symbolic(tree.body) and _powers(tree) <= _POWERS


def is_guard(text: str) -> bool:
    """Whether `text` is a comparison of sizes of inputs.

    >>> is_guard("max(3, 1 + 2*L['x'].size()[0]) <= 9"), is_guard("print(L)")
    (True, False)
    """
    tree = _parsed(text)
    return tree is not None and _guard(tree.body) and _powers(tree) <= _POWERS


def _parsed(text: str) -> ast.Expression | None:
    if len(text) > _LONGEST:
        return None
    try:
        tree = ast.parse(text.strip(), mode="eval")
        depth, level = 0, [tree.body]
        while level and depth <= 100:  # beyond it Python and SymPy run out of stack
            depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]  # type: ignore[misc]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return None if level else tree


def _powers(tree: ast.AST) -> int:
    signs = sum(isinstance(node, (ast.Pow, ast.LShift)) for node in ast.walk(tree))
    return signs + sum(isinstance(node, ast.Name) and node.id in _POWER_CALLS for node in ast.walk(tree))


def _symbolic(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=bool() | int() | float()):
            return True
        case ast.Name(id=name):
            return name in _CONSTANTS or name in ("True", "False") or re.fullmatch(r"[a-z]\w*\d", name) is not None
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if name in _TEXT_CALLS and args and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
                form = _IDENTIFIER if name == "Symbol" else _NUMBER
                if form.fullmatch(args[0].value) is None:
                    return False
                args = args[1:]
            elif name == "Symbol":
                return False
            if name in _POWER_CALLS:
                return len(args) == 2 and not keywords and _symbolic(args[0]) and _is_small(args[1])
            settings = all(item.arg is not None and isinstance(item.value, ast.Constant) for item in keywords)
            return name in _SYMBOLIC and settings and all(map(_symbolic, args))
        case ast.BinOp(left=left, op=ast.Pow() | ast.LShift(), right=right):
            return _symbolic(left) and _is_small(right)
        case ast.BinOp(
            left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod(), right=right
        ):
            return _symbolic(left) and _symbolic(right)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() | ast.Invert(), operand=operand):
            return _symbolic(operand)
        case ast.Compare(left=left, comparators=rest):
            return _symbolic(left) and all(map(_symbolic, rest))
        case ast.Tuple(elts=items):
            return all(map(_symbolic, items))
    return False


def _is_small(node: ast.AST) -> bool:
    """An exponent: a small whole number, or a symbol alone."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return abs(value) <= _EXPONENT
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_small(operand)
        case ast.Call(func=ast.Name(id="Integer" | "Float"), args=[ast.Constant(value=value), *_]):
            return _NUMBER.fullmatch(str(value)) is not None and abs(float(value)) <= _EXPONENT  # type: ignore[arg-type]
        case ast.Call(func=ast.Name(id="Rational")) | ast.Call(func=ast.Name(id="Symbol")) | ast.Name():
            return _symbolic(node)
    return False


def _guard(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as value):
            return is_plain(value)
        case ast.Constant(value=bool() | int() | float() | None):
            return True
        case ast.Name(id=name):
            return name in _GUARD_NAMES
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[], keywords=[]) if name in _GUARD_METHODS:
            return _guard(owner)
        case ast.Call(func=function, args=args, keywords=[]):
            return ast.unparse(function) in _GUARD_CALLS and all(map(_guard, args))
        case ast.Attribute(value=ast.Name(id="math"), attr=name):
            return name in ("inf", "nan")
        case ast.Attribute(value=owner, attr=name):
            return not name.startswith("_") and _is_input(owner)
        case ast.Subscript(value=owner, slice=index):
            return _guard(owner) and isinstance(index, ast.Constant) and _guard(index)
        case ast.BinOp(left=left, op=ast.Pow() | ast.LShift(), right=right):
            return _guard(left) and _is_small(right)
        case ast.BinOp(left=left, right=right):
            return not isinstance(node.op, (ast.MatMult, ast.RShift)) and _guard(left) and _guard(right)
        case ast.UnaryOp(operand=operand):
            return _guard(operand)
        case ast.BoolOp(values=values):
            return all(map(_guard, values))
        case ast.Compare(left=left, comparators=rest):
            return _guard(left) and all(map(_guard, rest))
        case ast.IfExp(test=test, body=body, orelse=other):
            return _guard(test) and _guard(body) and _guard(other)
    return False


def _is_input(node: ast.AST) -> bool:
    """An argument, or a part of one: L['x'], L['x'].state[0]."""
    match node:
        case ast.Name(id=name):
            return name == "L"
        case ast.Attribute(value=owner, attr=name):
            return not name.startswith("_") and _is_input(owner)
        case ast.Subscript(value=owner, slice=ast.Constant(value=index)):
            return _is_input(owner) and (not isinstance(index, str) or is_plain(index))
    return False
