"""Strings: NumPy object arrays, on which torch's structural functions run through their codes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import InvalidInputError
from onnxport.graph import limits
from onnxport.opset_maps.from_onnx.pytorch.automata import Automaton
from onnxport.opset_maps.from_onnx.pytorch.dtypes import FLOAT8, TORCH
from onnxport.opset_maps.from_onnx.pytorch.traced import leaves
from onnxport.opset_maps.from_onnx.values import Array, object_array

# Functions whose (first) result consists of elements of the operands; any other result is numeric.
_NUMERIC = frozenset({"eq", "ne", "argsort", "lt", "gt", "le", "ge"})


def is_text(item: object) -> bool:
    """Whether an argument is or holds an array of strings."""
    return any(isinstance(part, np.ndarray) and part.dtype == object for part in leaves(item))


def call(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """A structural function or comparison on strings: run on their places in the sorted vocabulary."""
    texts = [part for part in leaves([args, kwargs]) if isinstance(part, np.ndarray)]
    # not by NumPy's own strings, which lose the NULs at their end
    known = sorted({str(item) for part in texts for item in part.reshape(-1)})
    vocabulary = np.asarray(known, object)
    places = {item: place for place, item in enumerate(known)}

    def coded(item: object) -> Any:
        if isinstance(item, np.ndarray):
            codes = [places[str(part)] for part in item.reshape(-1)]
            return torch.tensor(codes, dtype=torch.int64).reshape(item.shape)
        if isinstance(item, (list, tuple)):
            return type(item)(coded(part) for part in item)
        return item

    result = function(*coded(args), **{key: coded(item) for key, item in kwargs.items()})
    if function.__name__ in _NUMERIC:
        return result

    def decoded(codes: torch.Tensor) -> Array:
        return vocabulary[codes.numpy()] if codes.dim() else np.asarray(vocabulary[int(codes)], object)

    if isinstance(result, torch.Tensor):
        return decoded(result)
    if function.__name__ == "split":
        return [decoded(part) for part in result]
    return (decoded(result[0]), *result[1:])


Text: TypeAlias = Array


def _mapped(function: Callable[[str], str], x: Text) -> Text:
    return object_array([function(str(item)) for item in x.reshape(-1)], x.shape)


def _numbers(function: Callable[[str], float], x: Text, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([function(str(item)) for item in x.reshape(-1)], dtype=dtype).reshape(x.shape)


def case(x: Text, upper: bool) -> Text:
    """In upper or lower case."""
    return _mapped(str.upper if upper else str.lower, x)


def concat(a: Text, b: Text) -> Text:
    """Each string of a before that of b."""
    longest = max((len(str(item)) for x in (a, b) for item in x.reshape(-1)), default=0)
    if longest > limits.MAX_CHARACTERS:
        raise InvalidInputError(f"StringConcat: a string of {longest:,} characters; at most {limits.MAX_CHARACTERS:,}")
    return np.asarray(a.astype(object) + b.astype(object), object)


def split(x: Text, delimiter: str | None, maxsplit: int | None) -> tuple[Text, torch.Tensor]:
    """Pieces in a new last axis filled with empty strings, and their number."""
    pieces = [_pieces(str(item), delimiter, maxsplit) for item in x.reshape(-1)]
    longest = max((len(item) for item in pieces), default=0)
    result = np.full((len(pieces), longest), "", object)
    for row, item in zip(result, pieces, strict=True):
        row[: len(item)] = item
    counts = torch.tensor([len(item) for item in pieces], dtype=torch.int64)
    return result.reshape(*x.shape, longest), counts.reshape(x.shape)


def _pieces(item: str, delimiter: str | None, maxsplit: int | None) -> list[str]:
    """A string's pieces; without a delimiter at runs of spaces alone, as onnxruntime, where Python takes any whitespace."""
    item = item if delimiter else item.strip(" ")
    if not item:
        return []
    most = -1 if maxsplit is None else maxsplit
    if delimiter:
        return item.split(delimiter, most)
    return [item] if most == 0 else re.split(" +", item, maxsplit=max(most, 0))


def full_match(x: Text, expression: re.Pattern[str] | Automaton) -> torch.Tensor:
    """Whether a string as a whole matches."""
    return _numbers(lambda item: expression.fullmatch(item) is not None, x, torch.bool)


def filled(x: Text) -> torch.Tensor:
    """Whether a string has any character."""
    return _numbers(lambda item: item != "", x, torch.bool)


def lookup(x: Text, keys: Text) -> torch.Tensor:
    """The place of each string among distinct keys, -1 where it is none."""
    places = {str(key): index for index, key in enumerate(keys)}
    return _numbers(lambda item: places.get(item, -1), x, torch.int64)


def cast(x: torch.Tensor, source: ir.DataType, dtype: ir.DataType) -> torch.Tensor | Text:
    """Numbers written as strings, or read from them."""
    if source == ir.DataType.STRING:
        held = TORCH[dtype]
        return _numbers(float if held.is_floating_point else int, np.asarray(x), held)
    wide = x.float() if x.dtype in (torch.bfloat16, *FLOAT8) else x
    return wide.detach().cpu().numpy().astype(str).astype(object)
