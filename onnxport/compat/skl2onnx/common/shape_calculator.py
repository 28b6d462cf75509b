"""Names that programs pass to `update_registered_converter`, where they are not called: shapes follow from the graph."""

from typing import NoReturn

from onnxport.compat.absent import refusing
from onnxport.errors import InvalidInputError

__getattr__ = refusing(__name__)


def _never(operator: object) -> NoReturn:
    raise InvalidInputError(
        "skl2onnx.common.shape_calculator: shapes follow from the graph, no function gives them here"
    )


calculate_linear_classifier_output_shapes = _never
calculate_linear_regressor_output_shapes = _never
