"""``onnx2torch.node_converters.registry``: a converter of a user's own is registered in another way here."""

from typing import NoReturn

from onnxport.compat.absent import refusing
from onnxport.errors import InvalidInputError

__getattr__ = refusing(__name__)


def add_converter(operation_type: str, version: int, domain: str = "") -> NoReturn:
    """Refuses: such a function is written for graphs of onnx2torch's own.

    Raises:
        InvalidInputError: always.
    """
    raise InvalidInputError(
        f"onnx2torch.add_converter: functions that read onnx2torch's own nodes are not called: register {operation_type!r} with "
        f"onnxport.register_from_onnx('pytorch', {domain!r}, {operation_type!r}, since={version})"
    )
