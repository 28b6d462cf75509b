"""The naming authority: one namespace a model, the user's names first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import onnx_ir as ir

from onnxport.errors import InvalidInputError

CONSTANT = "const"  # what constants that a map entry writes are called; further ones have a number behind it


def is_written_constant(name: str) -> bool:
    """Whether a value has the name of a constant that a map entry wrote.

    >>> is_written_constant("const_6"), is_written_constant("const.weight")
    (True, False)
    """
    return re.fullmatch(rf"{CONSTANT}(_\d+)?", name) is not None


# What the exporters of PyTorch and TensorFlow, and onnxruntime's optimiser, call the numbers of a program's text.
_NUMBER_NAMES = re.compile(
    r"val_\d+|scalar_tensor_default(_\d+)?|const_fold_opt__\d+|(.*/)?Constant(_\d+)?_output_0|.*/(x|y|Const):0|.*/Relu6_(min|max)__\d+"
)
# Operators of which an operand is no weight: their results do not vary with it, or its gradient is none of real numbers.
_OPERANDS = {
    "Less": (0, 1),
    "Greater": (0, 1),
    "LessOrEqual": (0, 1),
    "GreaterOrEqual": (0, 1),
    "Equal": (0, 1),
    "Pow": (1,),
}


def is_written_number(value: ir.Value) -> bool:
    """Whether an initializer is a number of a program's text, as an exponent or a limit, and no weight of the model.

    >>> scalar = ir.tensor(2.0)
    >>> [is_written_number(ir.val(name, const_value=scalar)) for name in ("val_7", "h/Constant_1_output_0", "logit_scale")]
    [True, True, False]
    """
    tensor, name = value.const_value, value.name or ""
    if tensor is None or tensor.size != 1:
        return False
    if is_written_constant(name) or _NUMBER_NAMES.fullmatch(name) is not None:
        return True
    return not tensor.shape.rank() and any(place in _OPERANDS.get(node.op_type, ()) for node, place in value.uses())


def numbered(base: str, taken: set[str | None], first: int = 1) -> str:
    """The first of ``base_1``, ``base_2``, ... (from `first` on) that is not taken; it is from now on.

    >>> numbered("x", {"x", "x_1"})
    'x_2'
    """
    number = first
    while (name := f"{base}_{number}") in taken:
        number += 1
    taken.add(name)
    return name


def unique_names(names: Iterable[str]) -> list[str]:
    """The names, with a number behind those that come again.

    >>> unique_names(["x", "x", "x_1"])
    ['x', 'x_1', 'x_1_1']
    """
    taken = NameAuthority()
    return [taken.unique(name) for name in names]


def component_names(kind: str, count: int) -> list[str] | None:
    """Names of the `count` tensors that a value of TensorFlow's type `kind` consists of, in its order; None for a plain tensor.

    >>> component_names("RaggedTensor", 3), component_names("Tensor", 1)
    (['flat_values', 'row_splits_0', 'row_splits_1'], None)
    """
    if kind == "RaggedTensor":
        splits = ["row_splits"] if count == 2 else [f"row_splits_{k}" for k in range(count - 1)]
        return ["flat_values", *splits]
    names = {
        "SparseTensor": ["indices", "values", "dense_shape"],
        "IndexedSlices": ["values", "indices", "dense_shape"],
    }
    return names[kind][:count] if kind in names else None


def positional(parameters: Sequence[str], count: int) -> list[str]:
    """Names of `count` positional arguments: the parameters', and numbers for those beyond them.

    >>> positional(["x"], 2)
    ['x', 'input_1']
    """
    return [parameters[i] if i < len(parameters) else f"input_{i}" for i in range(count)]


def chosen_names(option: str, own: Sequence[str], chosen: Sequence[str] | None) -> list[str]:
    """The names that the user gave as `option`, in the place of a model's own.

    Raises:
        InvalidInputError: their number differs.
    """
    if chosen is not None and len(chosen) != len(own):
        has = ", ".join(own) or "none"
        raise InvalidInputError(f"{option}: {len(chosen)} are given, the model has {len(own)} ({has})")
    return list(own if chosen is None else chosen)


def check_outputs_apart(inputs: Iterable[str], output_names: Sequence[str] | None) -> None:
    """Refuses a name that the user gave an output where an input has it.

    Raises:
        InvalidInputError: there is one.
    """
    both = set(inputs) & set(output_names or ())
    if both:
        raise InvalidInputError(
            f"output_names: {min(both)!r} is the name of an input; a graph tells values apart by their names"
        )


class NameAuthority:
    """Gives out value names that never collide.

    Names that the user gave (graph inputs and outputs, then parameters) are reserved, exactly; whatever comes later and
    would collide gets a numbered variant.

    >>> names = NameAuthority()
    >>> names.reserve("x")
    >>> names.unique("x"), names.unique("x"), names.unique("y")
    ('x_1', 'x_2', 'y')
    """

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def reserve(self, name: str) -> None:
        """Takes `name` as it is.

        Raises:
            ValueError: it is taken already.
        """
        if name in self._taken:
            raise ValueError(f"the name {name!r} is given twice")
        self._taken.add(name)

    def unique(self, base: str) -> str:
        """`base`, or where that is taken ``base_1``, ``base_2``, ..."""
        if base not in self._taken:
            self._taken.add(base)
            return base
        index = self._next.get(base, 1)
        while (name := f"{base}_{index}") in self._taken:
            index += 1
        self._next[base] = index + 1
        self._taken.add(name)
        return name

    def release(self, name: str) -> None:
        """Gives `name` back: what it was given to is not part of the model."""
        self._taken.discard(name)
