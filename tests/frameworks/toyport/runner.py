"""Running a toy model on arrays."""

import numpy as np

from onnxport.validation.runners.base import Example, Runner, split_arguments
from toyport.model import Toy


class ToyRunner(Runner):
    framework = "toy"

    def __init__(self, model, example):
        super().__init__(f"Toy of {len(model.steps)} steps", example)
        self._model = model

    def run(self, leaves):
        return [("output", self._model(*leaves))]

    def run_float64(self, leaves):
        wide = Toy(*((name, *(weight.astype(np.float64) for weight in weights)) for name, weights in self._model.steps))
        return [("output", wide(*(leaf.astype(np.float64) for leaf in leaves)))]

    def intermediates(self, leaves):
        names = [f"{place}.{operator}" for place, (operator, _) in enumerate(self._model.steps)]
        return dict(zip(names, self._model.values(*leaves), strict=True))


def bind(model, binding):
    if binding.inputs is None:
        return ToyRunner(model, None)
    args, named = split_arguments(binding.inputs, binding.kwargs)
    return ToyRunner(model, Example((next(iter(named), "x"),), (*args, *named.values())))
