"""``skl2onnx.algebra.onnx_operator_mixin``: estimators that convert themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from onnxport.compat.absent import refusing
from onnxport.compat.arguments import by_name
from onnxport.errors import InvalidInputError
from onnxport.frameworks.descriptor import Lazy

_convert = Lazy("onnxport.compat.skl2onnx:to_onnx")  # whose module knows this one
_register = Lazy("onnxport.compat.skl2onnx.writing:register")
__getattr__ = refusing(__name__)


class OnnxOperatorMixin:
    """Gives an estimator the method `to_onnx`.

    A class that also has ``to_onnx_operator(inputs, outputs, target_opset, options)``, operators of `skl2onnx.algebra`, converts
    by them, alone and within pipelines, and is proved as any other.
    """

    op_version: int | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.to_onnx_operator is not OnnxOperatorMixin.to_onnx_operator:
            _register.get()(cls, cls.__name__, None, _write)

    @by_name("skl2onnx: to_onnx")
    def to_onnx(
        self,
        X: Any = None,
        name: str | None = None,
        options: Mapping[Any, Any] | None = None,
        white_op: Any = None,
        black_op: Any = None,
        final_types: Sequence[tuple[str, Any]] | None = None,
        target_opset: int | Mapping[str, int] | None = None,
        verbose: int = 0,
    ) -> onnx.ModelProto:
        """See `onnxport.compat.skl2onnx.to_onnx`; without rows the types are those of ``enumerate_initial_types``."""
        types = None if X is not None else self.infer_initial_types()
        proto: onnx.ModelProto = _convert.get()(
            self,
            X,
            name,
            types,
            target_opset=self.op_version if target_opset is None else target_opset,
            options=options,
            white_op=white_op,
            black_op=black_op,
            final_types=final_types,
            verbose=verbose,
        )
        return proto

    def infer_initial_types(self) -> list[Any]:
        """The types of the inputs, where the class lists them.

        Raises:
            InvalidInputError: it does not.
        """
        listed = getattr(self, "enumerate_initial_types", None)
        if listed is None:
            raise InvalidInputError(
                f"skl2onnx: {type(self).__name__}.to_onnx: X is missing, a few rows that give the types of the inputs"
            )
        return list(listed())

    def to_onnx_operator(
        self, inputs: Any = None, outputs: Any = None, target_opset: int | None = None, options: Any = None
    ) -> Any:
        """The operators that the estimator is written with, where a class has them.

        Raises:
            InvalidInputError: it has none.
        """
        raise InvalidInputError(f"skl2onnx: {type(self).__name__} has no to_onnx_operator of its own")


def _write(scope: Any, operator: Any, container: Any) -> None:
    """Has an estimator write itself."""
    model = operator.raw_operator
    options = {"options": scope.get_options(model)} if scope.get_options(model) else {}
    node = model.to_onnx_operator(
        inputs=operator.inputs, outputs=operator.outputs, target_opset=container.target_opset, **options
    )
    node.add_to(scope, container)
