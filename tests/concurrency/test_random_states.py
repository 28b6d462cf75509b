"""Whatever is drawn during a conversion, the random states are after it as before."""

import random

import numpy as np
import pytest

from onnxport.converters.isolation import isolated

DRAWS = {
    "nothing": lambda: None,
    "a word": lambda: np.random.random(),
    "many words": lambda: np.random.random(5_000),
    "a normal number": lambda: np.random.standard_normal(),
    "the second of two normal numbers": lambda: np.random.randn(3),
    "a seed": lambda: np.random.seed(7),
    "another generator": lambda: np.random.set_state(np.random.RandomState(3).get_state()),
    "Python's": lambda: random.gauss(0, 1),
}


def state():
    return random.getstate(), repr(np.random.get_state(legacy=False))


@pytest.mark.parametrize("normal_before", [0, 1, 2])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_states_are_as_before(draw, normal_before):
    np.random.seed(0)
    for _ in range(normal_before):
        np.random.randn()
    for _ in range(3):  # what an earlier conversion saw is not taken for what is there now
        before = state()
        with isolated():
            draw()
        assert state() == before
        np.random.random()
        np.random.randn()


def test_another_kind_of_generator():
    before = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(1))
    try:
        held = repr(np.random.get_state(legacy=False))
        with isolated():
            np.random.randn(3)
        assert repr(np.random.get_state(legacy=False)) == held
    finally:
        np.random.set_bit_generator(before)
