"""Names, structures, dynamic dimensions, notes and errors of exported models."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is an extra")

from torch import Tensor, nn  # noqa: E402
from torch.export import Dim  # noqa: E402

import onnxport  # noqa: E402
from onnxport.converters.to_onnx.pytorch import export  # noqa: E402
from onnxport.errors import InvalidInputError, InvalidModelError, TracingError, UnsupportedOperator  # noqa: E402
from onnxport.model import OnnxModel  # noqa: E402
from onnxport.request import Request  # noqa: E402
from onnxport.tracing.pytorch_programs import load  # noqa: E402
from tests.evidence import require_equal  # noqa: E402
from tests.pytorch.exporting import exported  # noqa: E402

pytestmark = pytest.mark.pytorch

X, Y = torch.randn(2, 3), torch.randn(2, 3)
Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Result:
    score: Tensor
    extra: Tensor


class Cache:
    """A container registered with torch's pytree, as key-value caches are."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        self.key, self.value = key, value


torch.utils._pytree.register_pytree_node(
    Cache,
    lambda cache: ([cache.key, cache.value], ["key", "value"]),
    lambda values, _: Cache(*values),
    serialized_type_name="tests.Cache",
    flatten_with_keys_fn=lambda cache: (
        [(torch.utils._pytree.GetAttrKey(name), getattr(cache, name)) for name in ("key", "value")],
        ["key", "value"],
    ),
)


@dataclass
class Sample(OrderedDict[str, Tensor]):
    """Registered without the keys of its paths, as the outputs of diffusers are."""

    sample: Tensor
    scale: Tensor

    def __post_init__(self) -> None:
        self.update(sample=self.sample, scale=self.scale)


torch.utils._pytree.register_pytree_node(
    Sample,
    lambda item: (list(item.values()), list(item)),
    lambda values, keys: Sample(**dict(zip(keys, values, strict=True))),
    serialized_type_name="tests.Sample",
)


def bare(x: Tensor) -> Tensor:
    return x + 1


def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x + y, x - y


def nested(ids: Tensor, past: list[dict[str, Tensor]]) -> dict[str, Any]:
    return {"logits": ids * 2, "past": [{"key": past[0]["key"] + 1, "value": past[0]["value"]}]}


def named(pair: Pair) -> Pair:
    return Pair(pair.left + 1, pair.right * 2)


def as_dataclass(x: Tensor) -> Result:
    return Result(x + 1, x * 2)


def cached(x: Tensor, cache: Cache) -> Cache:
    return Cache(cache.key + x, cache.value)


def sampled(x: Tensor) -> Sample:
    return Sample(x + 1, x * 2)


def identity(x: Tensor) -> Tensor:
    return x


def repeated(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    return y, y, x


def with_none(x: Tensor, mask: Tensor | None = None, scale: int = 3) -> tuple[Any, ...]:
    return x * scale, mask, x.shape[0]


def variadic(*parts: Tensor) -> Tensor:
    return torch.cat(parts)


PAST = [{"key": Y.clone(), "value": Y * 3}]
NAMES = [
    (bare, (X,), ["x"], ["output"]),
    (two, (X, Y), ["x", "y"], ["output_0", "output_1"]),
    (nested, (X, PAST), ["ids", "past.0.key", "past.0.value"], ["logits", "present.0.key", "present.0.value"]),
    (named, (Pair(X, Y),), ["pair.left", "pair.right"], ["left", "right"]),
    (as_dataclass, (X,), ["x"], ["score", "extra"]),
    (cached, (X, Cache(X, Y)), ["x", "cache.key", "cache.value"], ["key", "value"]),
    (sampled, (X,), ["x"], ["sample", "scale"]),
    (identity, (X,), ["x"], ["output"]),
    (repeated, (X,), ["x"], ["output_0", "output_1", "output_2"]),
    (with_none, (X,), ["x"], ["output_0", "output_2"]),
    (variadic, (X, Y), ["parts.0", "parts.1"], ["output"]),
    (torch.sigmoid, (X,), ["input.0"], ["output"]),
]


@pytest.mark.parametrize(
    "model, inputs, input_names, output_names", NAMES, ids=lambda item: getattr(item, "__name__", None)
)
def test_names_follow_the_callable(
    model: Callable[..., Any], inputs: tuple[Any, ...], input_names: list[str], output_names: list[str]
) -> None:
    made = exported(model, *inputs)
    assert made.input_names == input_names
    assert made.output_names == output_names
    require_equal(model, made, inputs)


def test_names_given_by_the_user_are_exact() -> None:
    made = exported(two, X, Y, input_names=["a/b", "weight"], output_names=["sum", "diff"])
    assert (made.input_names, made.output_names) == (["a/b", "weight"], ["sum", "diff"])


class Holder(nn.Module):
    """Parameter names that clash with an input, tied weights, a parameter as output."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.tied = nn.Linear(3, 3, bias=False)
        self.again = nn.Linear(3, 3, bias=False)
        self.again.weight = self.tied.weight

    def forward(self, weight: Tensor) -> tuple[Tensor, ...]:
        return self.again(self.tied(weight @ self.weight)), self.weight


def test_parameters_keep_their_names_and_storage() -> None:
    model = Holder()
    made = exported(model, X)
    assert made.input_names == ["weight"]
    assert list(made.model.graph.initializers) == ["weight_1", "tied.weight"]
    stored = made.model.graph.initializers["tied.weight"].const_value.numpy()
    assert np.shares_memory(stored, model.tied.weight.detach().numpy())
    require_equal(model, made, (X,))


def test_buffers_and_parameters_stand_under_their_state_dict_names() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).eval()
    made = exported(model, torch.randn(2, 2, 4, 4))
    assert set(made.model.graph.initializers) == set(model.state_dict()) - {"1.num_batches_tracked"}


def dims(made: OnnxModel) -> list[list[Any]]:
    return [[d if isinstance(d, int) else d.value for d in value.shape] for value in made.model.graph.inputs]


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y], 1).reshape(x.shape[0], -1)


DYNAMIC = [
    ({"x": {0: "batch"}, "y": {0: "batch"}}, None, [["batch", 3], ["batch", 3]]),
    (({0: "batch", 1: "width"}, {0: "batch"}), None, [["batch", "width"], ["batch", 3]]),
    ({"x": {0: Dim.AUTO, 1: 3}, "y": {0: Dim.AUTO}}, None, [["x_dim_0", 3], ["x_dim_0", 3]]),
    ({"x": {0: Dim("rows", min=2, max=9)}, "y": {0: Dim("rows", min=2, max=9)}}, None, [["rows", 3], ["rows", 3]]),
    ({"x": None, "y": {1: "width"}}, None, [[2, 3], [2, "width"]]),
    ({"first": {1: "width"}}, ["first", "second"], [[2, "width"], [2, 3]]),
    ({"x": ["batch", "width"], "y": ("batch", None)}, None, [["batch", "width"], ["batch", 3]]),
]


@pytest.mark.parametrize("said, input_names, expected", DYNAMIC)
def test_dynamic_dimensions_are_the_users(said: Any, input_names: list[str] | None, expected: list[list[Any]]) -> None:
    made = exported(joined, X, Y, dynamic_shapes=said, input_names=input_names)
    assert dims(made) == expected
    sizes = {"batch": 4, "rows": 4, "x_dim_0": 4, "width": 5}
    inputs = [torch.randn([sizes.get(d, d) for d in shape]) for shape in expected]
    require_equal(joined, made, inputs)


def test_batch_is_dynamic_by_default_even_from_one_example() -> None:
    made = exported(joined, X[:1], Y[:1])
    assert dims(made) == [["batch", 3], ["batch", 3]]
    for size in (1, 2, 7):
        require_equal(joined, made, (torch.randn(size, 3), torch.randn(size, 3)))


STATIC = [
    (lambda x: x.squeeze() * 2, torch.randn(1, 3), "static"),
    (lambda x: x.reshape(2, 3) * 2, torch.randn(2, 3), "fixed size of x[0]"),
]


@pytest.mark.parametrize("model, x, note", STATIC)
def test_what_can_not_be_dynamic_is_static_and_said(model: Callable[[Tensor], Tensor], x: Tensor, note: str) -> None:
    made = exported(model, x)
    assert dims(made) == [list(x.shape)]
    assert any(note in item for item in made.notes)
    require_equal(model, made, (x,))


def test_nested_inputs_take_nested_dynamic_shapes() -> None:
    said = {"ids": {0: "batch"}, "past": [{"key": {0: "batch"}, "value": {0: "rows"}}]}
    made = exported(nested, X, PAST, dynamic_shapes=said)
    assert dims(made) == [["batch", 3], ["batch", 3], ["rows", 3]]


def test_container_of_the_users_takes_dynamic_shapes() -> None:
    said = {"x": {0: "batch"}, "cache": {"key": {0: "batch"}, "value": {1: "width"}}}
    made = exported(cached, X, Cache(X, Y), dynamic_shapes=said)
    assert dims(made) == [["batch", 3], ["batch", 3], [2, "width"]]


def test_keyword_and_dict_inputs() -> None:
    made = export(two, Request(inputs={"y": Y, "x": X}))
    assert made.input_names == ["x", "y"]
    made = export(two, Request(inputs=(X,), kwargs={"y": Y}))
    np.testing.assert_allclose(made(x=X.numpy(), y=Y.numpy())[1], (X - Y).numpy())

    def open_ended(x: Tensor, **rest: Tensor) -> Tensor:
        return x + rest["z"]

    made = export(open_ended, Request(inputs=(X,), kwargs={"z": Y}))
    assert made.input_names == ["x", "z"]


def test_a_method_of_a_module_keeps_the_parameters_names() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(3, 2)

        def encode(self, x: Tensor) -> Tensor:
            return self.fc(x)

    model = Model().eval()
    made = exported(model.encode, X)
    assert list(made.model.graph.initializers) == ["fc.weight", "fc.bias"]
    require_equal(model.encode, made, (X,))
    require_equal(lambda x: model.fc(x) * 2, exported(lambda x: model.fc(x) * 2, X), (X,))


def test_a_method_may_call_the_module_itself() -> None:
    class Model(nn.Linear):
        def predict(self, x: Tensor) -> Tensor:
            return self(x).softmax(-1) + self.forward(x)

    model = Model(3, 2).eval()
    made = exported(model.predict, X)
    assert list(made.model.graph.initializers) == ["weight", "bias"]
    require_equal(model.predict, made, (X,))


def test_exported_program_and_file(tmp_path: Any) -> None:
    model = nn.Linear(3, 2).eval()
    program = torch.export.export(model, (X,), dynamic_shapes=({0: Dim("n")},))
    made = export(program, Request())
    assert made.input_names == ["input"]
    require_equal(model, made, (torch.randn(5, 3),))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # torch's use of its own pytree
        functional = program.run_decompositions()
    require_equal(model, export(functional, Request()), (X,))
    torch.export.save(program, tmp_path / "model.pt2")
    require_equal(model, export(load(tmp_path / "model.pt2"), Request()), (X,))
    (tmp_path / "broken.pt2").write_bytes(b"no archive")
    with pytest.raises(InvalidModelError, match=r"broken\.pt2"):
        load(tmp_path / "broken.pt2")


def test_nodes_tell_where_they_come_from() -> None:
    made = exported(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).eval(), X)
    node = next(iter(made.model.graph))
    assert node.metadata_props["onnxport.op"] == "aten::linear.default"
    assert node.metadata_props["onnxport.module"] == "0"
    made = exported(bare, X)
    source = next(iter(made.model.graph)).metadata_props["onnxport.source"]
    assert source.startswith("tests/pytorch/test_interface.py:")


@pytest.mark.sampled(0.4)
@pytest.mark.parametrize("opset", [13, 17, 21, 23, 26])
def test_two_exports_are_equal_bytes_and_valid(opset: int) -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(2, 4, 8)
    first, second = (exported(model, x, target_opset=opset) for _ in range(2))
    assert first.proto.SerializeToString(deterministic=True) == second.proto.SerializeToString(deterministic=True)
    onnx.checker.check_model(first.proto, full_check=True)


def test_operators_without_mapping_are_decomposed() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.nn.functional.cosine_similarity(x, x.flip(0), dim=1) + torch.nn.functional.pairwise_distance(
            x, x.flip(0)
        )

    require_equal(model, exported(model, X), (X,))


def test_all_refusals_come_at_once() -> None:
    def model(x: Tensor) -> Tensor:
        return torch.linalg.eigvals(x @ x.T).real.sum() + torch.linalg.qr(x)[1].sum() + torch.linalg.qr(x)[0].sum()

    with pytest.raises(UnsupportedOperator) as caught:
        exported(model, torch.randn(3, 3), target_opset=13)
    assert len(caught.value.operators) >= 1
    assert "test_interface.py" in str(caught.value)
    wanted = any(not item.reason for item in caught.value.operators)  # a reason has its way out in it
    assert ("register_to_onnx('pytorch'" in str(caught.value)) == wanted


@torch.library.custom_op("onnxport_tests::double", mutates_args=())
def double(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() * 2)  # no operators of torch, as which it would convert


@double.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_custom_operators_are_refused_then_registered() -> None:
    def model(x: Tensor) -> Tensor:
        return double(x) + 1

    with pytest.raises(UnsupportedOperator, match="onnxport_tests::double"):
        exported(model, X)

    @onnxport.register_to_onnx("pytorch", "onnxport_tests::double")
    def lower(op: Any, x: Any) -> Any:
        return op.Add(x, x)

    require_equal(model, exported(model, X), (X,))


ERRORS = [
    (lambda: exported(bare), InvalidInputError, "do not fit"),
    (lambda: export(bare, Request()), InvalidInputError, "inputs="),
    (lambda: exported(two, X), InvalidInputError, "missing a required argument: 'y'"),
    (lambda: exported(bare, X, input_names=["a", "b"]), InvalidInputError, "input_names: 2 are given"),
    (lambda: exported(bare, X, output_names=["a", "b"]), InvalidInputError, "output_names: 2 are given"),
    (lambda: exported(bare, X, dynamic_shapes={"z": {0: "n"}}), InvalidInputError, "no input 'z'"),
    (lambda: exported(bare, X, dynamic_shapes={"x": {5: "n"}}), InvalidInputError, "no dimension 5"),
    (lambda: exported(lambda x: x if float(x.sum()) > 0 else x + 1, X), TracingError, "torch.cond"),
    (
        lambda: exported(lambda x: x.reshape(2, 3), X, dynamic_shapes={"x": {0: "n"}}),
        TracingError,
        "it needs dimension 0 of 'x' to be 2",
    ),
    (lambda: export(3, Request(inputs=(X,))), InvalidModelError, "neither"),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors_say_what_is_wrong(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_a_dict_of_the_users_keeps_its_own_names() -> None:
    """Names as transformers has them in its caches mean nothing in a user's dict."""

    def grown(x: torch.Tensor, cache: dict[str, list[torch.Tensor]]) -> dict[str, Any]:
        return {"cache": {name: [torch.cat([item, x]) for item in items] for name, items in cache.items()}}

    made = exported(grown, X, {"key_cache": [X, X + 1], "value_cache": [X, X * 2]})
    paths = [f"cache.{what}_cache.{place}" for what in ("key", "value") for place in (0, 1)]
    assert made.input_names == ["x", *paths]
    assert made.output_names == [f"present.{path}" for path in paths]
    report = onnxport.validate(grown, made, inputs=(X, {"key_cache": [X, X + 1], "value_cache": [X, X * 2]}))
    assert report.verdict == "passed", report
