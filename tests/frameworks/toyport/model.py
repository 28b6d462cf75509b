"""The framework itself."""

import numpy as np

from onnxport.errors import InvalidModelError
from onnxport.graph.atomic import atomic_file

FUNCTIONS = {
    "project": lambda x, weight: x @ weight,
    "shift": lambda x, weight: x + weight,
    "scale": lambda x, weight: x * weight,
    "rectify": lambda x: np.maximum(x, 0),
    "spin": lambda x: x[..., ::-1],  # without a mapping
}


class Toy:
    """A chain of steps; each is the name of an operator, and its weight where it has one."""

    def __init__(self, *steps):
        self.steps = [(step, ()) if isinstance(step, str) else (step[0], tuple(step[1:])) for step in steps]

    def values(self, x):
        """What each step gives."""
        for operator, weights in self.steps:
            x = FUNCTIONS[operator](x, *weights)
            yield x

    def __call__(self, x):
        return list(self.values(x))[-1]

    def save(self, path):
        weights = {f"{place}.{operator}": weights for place, (operator, weights) in enumerate(self.steps)}
        with atomic_file(path) as file:
            np.savez(file, **{name: np.asarray(arrays) for name, arrays in weights.items()})


def load(path, *, allow_pickle, allow_code):
    try:
        with np.load(path, allow_pickle=False) as archive:
            return Toy(*((name.partition(".")[2], *archive[name]) for name in archive.files))
    except (OSError, ValueError) as error:
        raise InvalidModelError(f"{str(path)!r} holds no toy model: {error}") from error
