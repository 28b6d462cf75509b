"""A pytest fixture for a user's own suite: a model converts, and gives the same numbers.

The plugin is loaded by every pytest run on a machine where onnxport is installed: it imports nothing until it is used.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


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
            options: further arguments of `onnxport.convert`.

        Returns:
            The last result.
        """


@pytest.fixture
def assert_converts() -> AssertConverts:
    """Converts a model to one or more frameworks and fails the test with the report where the numbers differ.

    ``to=("onnx", "pytorch")`` also takes the ONNX model on to PyTorch.
    """

    def check(
        model: Any,
        *,
        inputs: Any = None,
        to: str | Sequence[str] = "onnx",
        allow_unproved: bool = False,
        **options: Any,
    ) -> Any:
        import onnxport

        result = model
        for index, target in enumerate([to] if isinstance(to, str) else to):
            # A later step runs on inputs drawn from the ONNX graph's signature, the given ones being the first framework's.
            given = {"inputs": inputs, **options} if index == 0 else {}
            failure = ""
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore" if allow_unproved else "error", onnxport.UnprovedWarning)
                    result = onnxport.convert(result, to=target, **given)
            except onnxport.UnprovedWarning as error:
                failure = f"{type(model).__name__} to {target}: {error}"
            except onnxport.OnnxportError as error:
                failure = f"{type(model).__name__} does not convert to {target}: {error}"
            if failure:  # failed outside of the handler, pytest would print both errors
                pytest.fail(failure, pytrace=False)
        return result

    return check
