"""What the user asked of a conversion, passed to the drivers as one value."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from onnxport.errors import InvalidInputError
from onnxport.graph.runtimes import NEWEST_OPSET, RUNTIMES, Runtime

DEFAULT_OPSET = 21
OPSETS = range(13, 29)
ML_OPSETS = range(1, 6)
BITS = {"int8": 8, "int4": 4}  # types of the weights alone
DTYPES = ("float32", "float16", "bfloat16", *BITS)
BLOCK_SIZES = (16, 32, 64, 128, 256)

Optimize = Literal["none", "inference"]
Strategy = Literal["export", "trace"]
States = Literal["io"]


@dataclass(frozen=True)
class Request:
    """The arguments of `onnxport.convert` that concern the export.

    Attributes: as the arguments of `onnxport.convert`, but that `inputs` is one example, `examples` holds further ones (the
    dimensions in which they differ from `inputs` vary, and no others), and `target_opset` is None where the user leaves it to us;
    of a mapping `target_opset` keeps the version of ai.onnx, and `domains` the others. `proved`: a proof follows the export.

    Raises:
        InvalidInputError: an option has a value that it can't have for any model.
    """

    inputs: Any = None
    examples: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None
    target_opset: int | None = None
    domains: Mapping[str, int] = field(default_factory=dict)  # versions of others than ai.onnx
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    cut_inputs: Sequence[str] | None = None
    cut_outputs: Sequence[str] | None = None
    signature: str | None = None
    methods: Sequence[str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    optimize: Optimize = "none"
    runtime: Runtime = "onnxruntime"
    task: str | None = None
    dtype: str | None = None
    keep_io_types: bool | None = None
    weights: str | os.PathLike[str] | None = None
    functions: str | Sequence[type | str] | None = None
    strategy: Strategy | None = None
    states: States | None = None
    proved: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.target_opset, Mapping):
            own, domains = _versions(self.target_opset)
            object.__setattr__(self, "target_opset", own)
            object.__setattr__(self, "domains", domains)
        opset = self.target_opset
        if opset is not None and (isinstance(opset, bool) or not isinstance(opset, int) or opset not in OPSETS):
            raise InvalidInputError(
                f"target_opset={opset!r}: a version of ai.onnx from {OPSETS.start} to {OPSETS.stop - 1}"
            )
        _check_word("optimize", self.optimize, get_args(Optimize))
        _check_word("strategy", self.strategy, get_args(Strategy))
        _check_word("states", self.states, get_args(States), ", which makes a model's state inputs and outputs")
        _check_word("runtime", self.runtime, RUNTIMES)
        _check_word(
            "dtype",
            self.dtype,
            DTYPES,
            "; for another scheme quantise the float32 file with its own tools, and compare the two with onnxport.validate",
        )
        if self.keep_io_types and self.dtype is None:
            raise InvalidInputError(
                "keep_io_types= means nothing without dtype=: the types of inputs and outputs stay as they are"
            )
        if self.keep_io_types and self.dtype in BITS:
            raise InvalidInputError(f"keep_io_types= means nothing for dtype={self.dtype!r}: weights alone are smaller")
        if "block_size" in self.options:
            if self.dtype not in BITS:
                raise InvalidInputError(
                    "options={'block_size': ...} means nothing without dtype='int4' or dtype='int8'"
                )
            if str(self.options["block_size"]) not in map(str, BLOCK_SIZES):
                sizes = ", ".join(map(str, BLOCK_SIZES))
                raise InvalidInputError(f"options: block_size={self.options['block_size']!r}: one of {sizes}")
        _check_functions(self.functions)
        if self.examples and self.dynamic_shapes is not None:
            raise InvalidInputError(
                "dynamic_shapes= and the several examples in inputs= both say which dimensions vary: give one of them"
            )
        for name in ("input_names", "output_names", "cut_inputs", "cut_outputs", "methods"):
            check_names(name, getattr(self, name))
        both = set(self.input_names or ()) & set(self.output_names or ())
        if both:
            raise InvalidInputError(
                f"input_names and output_names both hold {min(both)!r}; a graph tells values apart by their names"
            )

    @property
    def block_size(self) -> int:
        """How many weights of a few bits share a scale."""
        return int(self.options.get("block_size", 32))

    @property
    def opset(self) -> int:
        """The version of ai.onnx to write."""
        return DEFAULT_OPSET if self.target_opset is None else self.target_opset

    @property
    def ml_opset(self) -> int | None:
        """The version of ai.onnx.ml to write; None for the one that goes with `opset`."""
        return self.domains.get("ai.onnx.ml")

    @property
    def runs_in(self) -> Runtime:
        """What runs the result: onnxruntime loads no opset above `NEWEST_OPSET`."""
        return "reference" if self.opset > NEWEST_OPSET else self.runtime


def _versions(given: Mapping[str, int]) -> tuple[int | None, dict[str, int]]:
    """The version of ai.onnx, None where it is left to us, and those of other domains."""
    others = {domain: version for domain, version in given.items() if domain not in ("", "ai.onnx")}
    for domain, version in others.items():
        most = ML_OPSETS[-1] if domain == "ai.onnx.ml" else None
        whole = isinstance(version, int) and not isinstance(version, bool) and version > 0
        if not isinstance(domain, str) or not whole or (most is not None and version > most):
            known = f" from 1 to {most}" if most else ", 1 or more"
            raise InvalidInputError(f"target_opset={dict(given)!r}: {domain!r} has versions{known}, not {version!r}")
    return given.get("", given.get("ai.onnx")), others


def _check_word(option: str, word: object, words: Sequence[str], more: str = "") -> None:
    if word is not None and not (isinstance(word, str) and word in words):
        one = "one of " if len(words) > 1 else ""
        raise InvalidInputError(f"{option}={word!r}: {one}{', '.join(map(repr, words))}{more}")


def check_names(option: str, names: Sequence[str] | None) -> None:
    """Refuses what is no list of different names.

    Raises:
        InvalidInputError: it is none.
    """
    if names is None:
        return
    if isinstance(names, str) or not isinstance(names, Sequence):
        example = [names] if isinstance(names, str) else ["first", "second"]
        raise InvalidInputError(f"{option}={names!r}: a list of names, such as {example!r}")
    for place, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"{option}[{place}] is {name!r}: each is a string that is not empty")
        if name in names[:place]:
            raise InvalidInputError(f"{option}: {name!r} is given twice; each needs a name of its own")
    if not names:
        raise InvalidInputError(f"{option} is empty: leave it out, or name at least one")


def _check_functions(given: object) -> None:
    if given is None or (isinstance(given, str) and given == "auto"):
        return
    if isinstance(given, (str, type)) or not isinstance(given, Sequence):
        shown = getattr(given, "__name__", repr(given))
        raise InvalidInputError(f"functions={shown}: 'auto', or a list of classes such as functions=[{shown}]")
    if not given:
        raise InvalidInputError("functions is empty: leave it out, or name at least one class")
    for place, item in enumerate(given):
        if not isinstance(item, type) and not (isinstance(item, str) and item):
            raise InvalidInputError(f"functions[{place}] is {item!r}: each is a class or the name of one")
