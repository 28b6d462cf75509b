"""What a conversion leaves behind in the process."""

import gc

import numpy as np
import pytest

import onnxport

pytest.importorskip("sklearn", reason="scikit-learn is an extra")
pytestmark = pytest.mark.sklearn

from sklearn.linear_model import LinearRegression  # noqa: E402

from onnxport.errors import InvalidInputError  # noqa: E402

ROWS = np.arange(12.0).reshape(6, 2)


@pytest.fixture
def frozen():
    gc.freeze()
    yield gc.get_freeze_count()
    gc.unfreeze()


def test_the_collector_sees_all_objects_again():
    seen = []

    class Watching(LinearRegression):
        @property
        def coef_(self):
            seen.append(gc.get_freeze_count())
            return self.found

        @coef_.setter
        def coef_(self, found):
            self.found = found

    model = Watching().fit(ROWS, ROWS[:, 0])
    seen.clear()
    onnxport.convert(model, inputs=ROWS, validate=False)
    assert min(seen) > 0
    assert gc.get_freeze_count() == 0


def test_objects_that_the_caller_froze_stay_so(frozen):
    onnxport.convert(LinearRegression().fit(ROWS, ROWS[:, 0]), inputs=ROWS, validate=False)
    assert gc.get_freeze_count() > frozen / 2  # some are gone for good


def test_the_collector_sees_all_objects_again_after_an_error():
    with pytest.raises(InvalidInputError):
        onnxport.convert(LinearRegression().fit(ROWS, ROWS[:, 0]), inputs="rows", validate=False)
    assert gc.get_freeze_count() == 0
