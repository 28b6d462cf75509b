"""pytest fixtures for a user's own suite: a model converts, and gives the same numbers.

The plugin is loaded by every pytest run on a machine where onnxport is installed: it imports nothing until it is used.
"""

from __future__ import annotations

import itertools
import re
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnxport.frameworks import Framework
    from onnxport.model import OnnxModel


class AssertConverts(Protocol):
    """``assert_converts(model, inputs=..., to=...)``."""

    def __call__(
        self,
        model: Any,
        *,
        inputs: Any = None,
        to: str | Sequence[str] = "onnx",
        allow_unproved: bool = False,
        **options: Any,
    ) -> Any:
        """Converts `model` and fails the test where it differs, can't be proved, or has an unsupported operator.

        Args:
            model: anything that `onnxport.convert` takes.
            inputs: example inputs.
            to: the target, or several: the model then goes from one to the next.
            allow_unproved: let an output pass that could not be compared by value.
            options: further arguments of `onnxport.convert`, before those of the marker and the command line.

        Returns:
            The last result.
        """


class OnnxRoundtrip(Protocol):
    """``onnx_roundtrip(model, inputs=..., through=...)``."""

    def __call__(
        self,
        model: Any,
        *,
        inputs: Any = None,
        through: str | None = None,
        allow_unproved: bool = False,
        **options: Any,
    ) -> OnnxModel:
        """Takes `model` to ONNX, from there to a framework and back, and fails the test where a leg changes the numbers.

        Args:
            model: anything that `onnxport.convert` takes.
            inputs: example inputs of it.
            through: the framework in between; by default the model's own.
            allow_unproved: let an output pass that could not be compared by value.
            options: further arguments of `onnxport.convert` for the first leg.

        Returns:
            The model in ONNX that came back.
        """


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--onnx-opsets``, ``--onnx-runtimes`` and ``--onnx-artifacts``."""
    group = parser.getgroup("onnxport")
    group.addoption(
        "--onnx-opsets", metavar="LIST", help="opsets that tests without the marker `onnx` run at: 13,17,21"
    )
    group.addoption("--onnx-runtimes", metavar="LIST", help="runtimes likewise: onnxruntime,reference")
    group.addoption(
        "--onnx-artifacts",
        metavar="DIR",
        type=Path,
        help="folder for the report and the wrong operator of a failing proof",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker ``onnx``."""
    config.addinivalue_line(
        "markers", "onnx(opsets, runtimes): run with each opset and runtime, for assert_converts and onnx_roundtrip"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that converts once for each opset and runtime asked for."""
    if "onnx_target" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker("onnx")
    given = mark.kwargs if mark is not None else {}
    asked = {
        "target_opset": given.get("opsets") or [int(word) for word in _words(metafunc.config, "--onnx-opsets")],
        "runtime": given.get("runtimes") or _words(metafunc.config, "--onnx-runtimes"),
    }
    axes = [[(name, value) for value in values] for name, values in asked.items() if values]
    if axes:
        targets = [dict(target) for target in itertools.product(*axes)]
        names = [
            "-".join(f"opset{value}" if isinstance(value, int) else value for value in item.values())
            for item in targets
        ]
        metafunc.parametrize("onnx_target", targets, ids=names)


def _words(config: pytest.Config, option: str) -> list[str]:
    return [word.strip() for word in (config.getoption(option) or "").split(",") if word.strip()]


@pytest.fixture
def onnx_target() -> dict[str, Any]:
    """Opset and runtime that the test runs at, as arguments of `onnxport.convert`; empty where none are asked for."""
    return {}


@pytest.fixture
def assert_converts(onnx_target: dict[str, Any], request: pytest.FixtureRequest) -> AssertConverts:
    """Converts a model to one or more frameworks and fails the test with the report where the numbers differ.

    ``to=("onnx", "pytorch")`` also takes the ONNX model on to PyTorch.
    """
    trial = _Trial(onnx_target, request.node.nodeid, request.config.getoption("--onnx-artifacts"))

    def check(
        model: Any,
        *,
        inputs: Any = None,
        to: str | Sequence[str] = "onnx",
        allow_unproved: bool = False,
        **options: Any,
    ) -> Any:
        result = model
        for index, target in enumerate([to] if isinstance(to, str) else to):
            # A later step runs on inputs drawn from the ONNX graph's signature, the given ones being the first framework's.
            given = {"inputs": inputs, **options} if index == 0 else {}
            result = trial.converted(_name(model), result, target, given, first=index == 0, unproved=allow_unproved)
        return result

    return check


@pytest.fixture
def onnx_roundtrip(onnx_target: dict[str, Any], request: pytest.FixtureRequest) -> OnnxRoundtrip:
    """Takes a model to ONNX, to a framework and back to ONNX, and fails the test with the report of the leg that differs."""
    trial = _Trial(onnx_target, request.node.nodeid, request.config.getoption("--onnx-artifacts"))

    def check(
        model: Any, *, inputs: Any = None, through: str | None = None, allow_unproved: bool = False, **options: Any
    ) -> OnnxModel:
        import onnxport
        from onnxport.validation.input_sets.drawn import DrawnInputs

        name = _name(model)
        own = trial.framework(name, model, {"inputs": inputs, **options})
        if through is None and own.is_hub:
            pytest.fail("onnx_roundtrip: the model is ONNX: name a framework, through='pytorch'", pytrace=False)
        middle = through or own.name
        hub = trial.converted(name, model, "onnx", {"inputs": inputs, **options}, first=True, unproved=allow_unproved)
        foreign = trial.converted(name, hub, middle, {}, unproved=allow_unproved)
        example = next(DrawnInputs(hub.model).first()).leaves
        back: OnnxModel = trial.converted(
            f"{name} from {middle}", foreign, "onnx", {"inputs": example}, first=True, unproved=allow_unproved
        )
        report = onnxport.validate(hub, back)
        if report.verdict == "failed" or (report.verdict == "unproved" and not allow_unproved):
            trial.fail(f"{name} through {middle} and back: {report}", report)
        return back

    return check


def _name(model: object) -> str:
    return str(model) if isinstance(model, (str, Path)) else type(model).__name__


@dataclass(frozen=True)
class _Trial:
    """One test: what it converts at, and where it leaves what it saw."""

    target: Mapping[str, Any]
    test: str
    artifacts: Path | None

    def framework(self, name: str, model: Any, given: Mapping[str, Any]) -> Framework:
        """Whose the model is; fails the test where nobody knows."""
        from onnxport import frameworks
        from onnxport.errors import OnnxportError
        from onnxport.validation.values import leaves_of

        try:
            return frameworks.get(frameworks.of_object(model, leaves_of(given.get("inputs"), given.get("kwargs"))))
        except OnnxportError as error:
            failure = f"{name}: {error}"
        pytest.fail(failure, pytrace=False)

    def converted(
        self, name: str, model: Any, to: str, given: Mapping[str, Any], *, first: bool = False, unproved: bool = False
    ) -> Any:
        """What the model becomes; fails the test where it does not, or not provably."""
        import onnxport

        # A runtime means something on the way to a new graph: one of ONNX is there already.
        fitted = to == "onnx" and not self.framework(name, model, given).is_hub
        asked = {key: value for key, value in self.target.items() if first and (key != "runtime" or fitted)}
        arguments = {**asked, **given}
        at = "".join(f", {key}={value!r}" for key, value in asked.items() if key not in given)
        report, failure = None, ""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if unproved else "error", onnxport.UnprovedWarning)
                result = onnxport.convert(model, to=to, **arguments)
        except onnxport.UnprovedWarning as error:
            failure = f"{name} to {to}{at}: {error}"
        except onnxport.ValidationError as error:
            report, failure = error.report, f"{name} does not convert to {to}{at}: {error}"
        except onnxport.OnnxportError as error:
            failure = f"{name} does not convert to {to}{at}: {error}"
        else:
            odd = [
                item for item in getattr(getattr(result, "report", None), "witnesses", ()) if item.verdict != "passed"
            ]
            if not odd:
                return result
            names = ", ".join(f"{item.title}: {item.verdict}" for item in odd)
            report, failure = result.report, f"{name} to {to}{at}: {names}\n{result.report}"
        # Failed outside of the handlers: pytest would print both errors.
        return self.fail(failure, report, (model, arguments) if to == "onnx" else None)

    def fail(self, failure: str, report: Any = None, case: tuple[Any, Mapping[str, Any]] | None = None) -> None:
        """Fails the test, once the report and the wrong operator are written where artifacts are asked for."""
        if self.artifacts is not None and report is not None:
            folder = self.artifacts / re.sub(r"[^\w.-]+", "_", self.test)
            folder.mkdir(parents=True, exist_ok=True)
            report.to_html(folder / "report.html", command=f"pytest {self.test!r}")
            failure += f"\nreport: {folder / 'report.html'}"
            model = None if case is None else _reproducer(*case, folder / "operator")
            if model is not None:
                failure += f"\nthe operator to look at: {model}; onnxport validate {model} replays it"
        pytest.fail(failure, pytrace=False)


def _reproducer(model: Any, arguments: Mapping[str, Any], folder: Path) -> Path | None:
    """The file of the wrong operator beside its inputs and expected output; None where the source does not show it."""
    import onnxport

    debugging = import_module("onnxport.converters.debugging")
    taken = {"kwargs", "signature", "allow_pickle", "allow_code"}
    try:
        unproved = {key: value for key, value in arguments.items() if key not in {"rtol", "atol", "output"}}
        converted = onnxport.convert(model, **{**unproved, "validate": False})
        known = {key: value for key, value in arguments.items() if key in taken}
        inquiry = debugging.debug(model, converted, arguments.get("inputs"), **known)
        path: Path = debugging.write_reproducer(inquiry, folder)
    except onnxport.OnnxportError:  # a service: the source need not tell of its inner values
        return None
    return path
