"""The error of a trace of TensorFlow that fails: the user's line, the reason, the way out, without the frames in between."""

from __future__ import annotations

import os
import re
import sys

from onnxport.errors import reason_of
from onnxport.graph.provenance import relative_path

_FRAME = re.compile(r'^ *File "(?P<file>.+?)", line (?P<line>\d+), in .*\n +(?P<code>.*)$', re.MULTILINE)
_LIBRARY = re.compile(r"[\\/](?:tensorflow[\\/]python|keras[\\/]src|site-packages[\\/](?:numpy|scipy))[\\/]")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_DECIDES = "as a Python `bool` is not allowed"
_WAYS = {
    "tf.Variables created on the first call": "Make variables once, outside of the function: in the module's __init__.",
    "to a numpy array": "Write it in TensorFlow's or Keras' functions of tensors: NumPy has no part in a graph.",
    "'numpy'": "Write it in TensorFlow's or Keras' functions of tensors: NumPy has no part in a graph.",
    _DECIDES: (
        "Python decides there on the value of a tensor: write it with tf.where or tf.cond, in Keras with keras.ops."
    ),
    "not 'SymbolicTensor'": (
        "Python asks there for the value of a tensor: keep it a tensor, and choose with tf.where or keras.ops.where."
    ),
    "Binding inputs to tf.function failed": "Pass inputs= and kwargs= as the function itself is called.",
}
_LAYER = re.compile(r"Exception encountered when calling (?P<layer>\w+)\.call\(\)")
_SIZES = (
    "Keras' own {layer} decides there on a size that is open: pass inputs=(...), whose sizes are then taken, or build the "
    "model with fixed ones."
)
_OTHERWISE = "Mend that, or pass inputs that fit it."
_MOST = 300


def reason(error: Exception, otherwise: str = "") -> str:
    """Three lines at most: where in the user's code, why, and what to do; `otherwise` where the error does not tell."""
    text = str(error)
    frames = list(_FRAME.finditer(text))
    user = [item for item in frames if not _LIBRARY.search(item["file"]) and not item["file"].startswith(_OWN)]
    place = f"{relative_path(user[-1]['file'])}:{user[-1]['line']}: {user[-1]['code'].strip()}" if user else ""
    kind = type(error).__name__
    rest = (text[frames[-1].end() :] if frames else text).strip().removeprefix(f"{kind}: ")
    rest = reason_of(ValueError(rest)).partition(" Received args:")[0].partition(" You can attempt the following")[0]
    layer = _layer_of_keras(text)
    why = f"TensorFlow can't trace the model: {kind}{f' in {layer}' if layer else ''}: {rest}"[:_MOST]
    way_out = next((way for sign, way in _WAYS.items() if sign in text), _OTHERWISE)
    if layer and way_out == _WAYS[_DECIDES]:
        way_out = _SIZES.format(layer=layer)
    way_out = otherwise or way_out
    return "\n".join([*([place] if place else []), why, way_out])


def _layer_of_keras(text: str) -> str:
    """The layer of Keras itself that raised, if one did; a Lambda holds code of the user."""
    match = _LAYER.search(text)
    layers = getattr(sys.modules.get("keras"), "layers", None)
    own = match is not None and match["layer"] != "Lambda" and hasattr(layers, match["layer"])
    return match["layer"] if match and own else ""
