"""Operators that stand before the model in a serving graph, and what to convert instead."""

from __future__ import annotations

_PARSED = (
    "serialized records are parsed before the model: convert a function of the parsed features, with its own signature; of a "
    "SavedModel of TensorFlow 1 `tf.saved_model.load(path).prune(feeds, fetches)`, fed with what this operator gives"
)
_PICTURE = (
    "files of pictures are decoded before the model: convert a function of the decoded picture, with its own signature"
)
_PYTHON = (
    "Python runs inside of the graph here (tf.py_function, tf.numpy_function), and no other runtime has it: write it in "
    "TensorFlow's operators, or convert the parts before and behind it"
)
_FILE = "files are read before the model: convert a function of their contents, with a signature of its own"
_ORDER = "the order of a general matrix' eigenvalues is LAPACK's choice; those of a symmetric matrix (eigh, eigvalsh) convert"
_REASONS = {
    "Eig BatchEig": _ORDER,
    "ParseExample ParseExampleV2 ParseSingleExample ParseSequenceExample ParseSequenceExampleV2 "
    "ParseSingleSequenceExample ParseTensor DecodeProtoV2 DecodeCSV DecodeJSONExample": _PARSED,
    "EagerPyFunc PyFunc PyFuncStateless": _PYTHON,
    "DecodeJpeg DecodeAndCropJpeg DecodePng DecodeBmp DecodeGif DecodeImage DecodeWebP": _PICTURE,
    "ReadFile DecodeWav DecodeRaw DecodePaddedRaw DecodeCompressed": _FILE,
}


def way_out(operator: str) -> str:
    """Why an operator has no entry, and the way out; empty where nothing is known of it.

    >>> way_out("DecodePng")[:33]
    'files of pictures are decoded bef'
    """
    return next((text for names, text in _REASONS.items() if operator in names.split()), "")
