"""Example inputs of PyTorch models: one tensor in several places, several examples, dimensions that vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")
pytestmark = pytest.mark.pytorch

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.pytorch_refused import check_runs  # noqa: E402
from onnxport.errors import InvalidInputError  # noqa: E402
from onnxport.request import Request  # noqa: E402

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


@dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Doubled(torch.nn.Module):
    """Takes what is its own weight too."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(X.clone())

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return a - 2 * self.weight


class OfPair(torch.nn.Module):
    def forward(self, p: Pair) -> torch.Tensor:
        return p.left - 2 * p.right


def apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a - 2 * b


def written(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a = a.clone()
    return a.add_(1) - 2 * b


DOUBLED = Doubled()
ATTENTION = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
STEPS = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(1))
ROWS: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (apart, (X, X), {}),
    (apart, (X, X[:]), {}),
    (apart, (X,), {"kwargs": {"b": X}}),
    (apart, (X, X), {"dynamic_shapes": {"a": {0: "n", 1: "m"}, "b": {0: "n", 1: "m"}}}),
    (lambda d, e: d["a"] - 2 * d["b"] + 3 * e[0], ({"a": X, "b": X}, [X]), {}),
    (OfPair(), (Pair(X, X),), {}),
    (lambda a, b: (a, b, a - b), (X, X), {}),
    (lambda a: a - 2 * X, (X,), {}),
    (written, (X, X), {}),
    (DOUBLED, (DOUBLED.weight,), {}),
    (ATTENTION, (STEPS, STEPS, STEPS), {}),
]


@pytest.mark.parametrize(("model", "inputs", "options"), ROWS, ids=range(len(ROWS)))
def test_one_tensor_in_several_places_is_several_inputs(
    model: Callable[..., Any], inputs: tuple[Any, ...], options: dict[str, Any]
) -> None:
    before = X.clone()
    made = onnxport.convert(model, inputs=inputs, **options)
    assert torch.equal(X, before)
    leaves = torch.utils._pytree.tree_leaves((inputs, options.get("kwargs", {})))
    leaves = [leaf for item in leaves for leaf in (vars(item).values() if isinstance(item, Pair) else [item])]
    assert len(made.input_names) == len(leaves)
    assert made.report is not None
    assert made.report.passed
    assert onnxport.validate(model, made, inputs=inputs, kwargs=options.get("kwargs")).passed


def test_each_of_two_inputs_from_one_tensor_is_its_own() -> None:
    made = onnxport.convert(apart, inputs=(X, X))
    a, b = np.ones((5, 3), np.float32), np.full((5, 3), 7, np.float32)
    np.testing.assert_array_equal(made(a, b), a - 2 * b)


def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


def each(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sum(0) + y.sum(0)


def keyed(d: dict[str, torch.Tensor]) -> torch.Tensor:
    return d["a"] * 2


LINEAR = torch.export.export(torch.nn.Linear(3, 2), (X,), dynamic_shapes=({0: torch.export.Dim("n")},))
CONTRADICTED: list[tuple[Any, tuple[Any, ...], Any, str]] = [
    (each, (X, X), {"x": [0]}, "'x' has 2 dimensions, the list"),
    (each, (X, X), {"x": {0: 0}}, "dimension 0 of 'x' is 4, not 0"),
    (each, (X, X), {"x": {0: True}}, "is True"),
    (each, (X, X), {"x": {0: ""}}, "is ''"),
    (each, (X, X), {"x": {0: object()}}, "a name, the size as it is, or a torch.export.Dim"),
    (each, (X, X), {"x": {-1: "v", 1: "w"}}, "dimension 1 of 'x' is given twice"),
    (each, (X, X), {"x": "batch"}, "'x' is given 'batch'"),
    (each, (X, X), [{0: "n"}] * 3, "3 items for 2 inputs"),
    (each, (X, X[:2]), {"x": {0: "n"}, "y": {0: "n"}}, "dimensions of one name are of one size"),
    (both, (X, X), {"x": {0: "n"}, "y": {0: "m"}}, "the model needs 'n' and 'm'"),
    (keyed, ({"a": X},), {"d": {"b": {0: "n"}}}, "no input 'd.b'; the inputs are d.a"),
    (keyed, ({"a": X},), {"d": {0: "n"}}, "'d' is no tensor, its tensors are d.a"),
    (LINEAR, (X,), {"input": {1: "w"}}, "exported with dimension 1 of 'input' fixed at 3"),
    (LINEAR, (X,), {"x": {0: "w"}}, "no input 'x'; the inputs are input"),
    (LINEAR, (X,), {"input": {0: 4}}, "dimension 0 of 'input' varies"),
]


@pytest.mark.parametrize(("model", "inputs", "asked", "message"), CONTRADICTED, ids=[row[3] for row in CONTRADICTED])
def test_dimensions_that_can_not_be_as_asked_are_refused(
    model: Any, inputs: tuple[Any, ...], asked: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(model, inputs=inputs, dynamic_shapes=asked, validate=False)


def _dims(made: onnxport.OnnxModel) -> list[list[Any]]:
    return [[dim if isinstance(dim, int) else dim.value for dim in value.shape] for value in made.model.graph.inputs]


def test_what_differs_among_several_examples_varies() -> None:
    examples = [
        (torch.ones(2, 3, 5), torch.ones(4, 3)),
        (torch.ones(6, 3, 5), torch.ones(4, 3)),
        (torch.ones(6, 3, 8), torch.ones(7, 3)),
    ]
    made = onnxport.convert(lambda x, y: x.sum(2) * 2 + y.sum(0), inputs=examples)
    assert _dims(made) == [["batch", 3, "x_dim_2"], ["y_dim_0", 3]]
    assert made.report is not None
    assert {"given", "inputs[1]: given", "inputs[2]: given"} <= {item.name for item in made.report.sets}
    shared = onnxport.convert(both, inputs=[(X, X), (X[:2], X[:2])], validate=False)
    assert _dims(shared) == [["batch", 3], ["batch", 3]]
    assert _dims(onnxport.convert(both, inputs=[X, X], validate=False)) == [["batch", 3], ["batch", 3]]


EXAMPLES: list[tuple[Any, list[Any], dict[str, Any], str]] = [
    (both, [(X, X), (X,)], {}, "do not fit"),
    (both, [(X, X), (X, X[0])], {}, r"inputs\[1\]: 'y' is torch.float32 of 1 dimensions"),
    (both, [(X, X), (X.double(), X)], {}, "'x' is torch.float64"),
    (keyed, [({"a": X},), ({"b": X},)], {}, r"inputs\[1\] has other tensors than inputs\[0\]: d.b"),
    (both, [(X, X), (X[:2], X[:2])], {"dynamic_shapes": {"x": {0: "n"}}}, "give one of them"),
    (LINEAR, [(X,), (X[:2],)], {}, "inputs= holds 2 examples"),
]


@pytest.mark.parametrize(("model", "inputs", "options", "message"), EXAMPLES, ids=[row[3] for row in EXAMPLES])
def test_examples_that_differ_in_more_than_sizes_are_refused(
    model: Any, inputs: list[Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        onnxport.convert(model, inputs=inputs, **options)


@pytest.mark.parametrize("names", [{"output_names": ["x"]}, {"input_names": ["a", "b"], "output_names": ["b"]}])
def test_an_output_does_not_take_the_name_of_an_input(names: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="input"):
        onnxport.convert(both, inputs=(X, X), **names)


class _ByKeyword(torch.nn.Module):
    """Takes all but its first input by keyword, as Keras' layers on PyTorch do."""

    def __call__(self, x, **keywords):
        return super().__call__(x, **keywords)

    def forward(self, x, weight):
        return x * weight


def test_a_model_is_tried_as_it_is_called():
    x = torch.ones(2, 3)
    check_runs(_ByKeyword(), Request(inputs=(x,), kwargs={"weight": x}))
    with pytest.raises(InvalidInputError, match="_ByKeyword itself does not run"):
        check_runs(_ByKeyword(), Request(inputs=(x,), kwargs={"weight": x[:, :2]}))


class Lenient(torch.nn.Module):
    """Takes any keyword, and looks at one."""

    def forward(self, x: torch.Tensor, **others: torch.Tensor) -> torch.Tensor:
        return x * others["scale"] if "scale" in others else x + 1


@pytest.mark.parametrize(("keyword", "told"), [("scale", False), ("scael", True)])
def test_an_input_that_nothing_is_made_of_is_told(keyword: str, told: bool) -> None:
    converted = onnxport.convert(Lenient(), inputs={"x": X, keyword: X})
    assert any(f"no use of its input {keyword!r}" in note for note in converted.report.notes) == told
