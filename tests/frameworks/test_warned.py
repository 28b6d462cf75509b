"""A conversion warns of nothing that its proof alone brings about, and leaves the user's filters as they were."""

import warnings

import numpy as np
import pytest

import onnxport
from onnxport.frameworks.warned import warnings_kept
from tests.concurrency.elsewhere import entered_elsewhere


@pytest.mark.sklearn
def test_an_estimator_of_named_columns_is_proved_without_a_warning():
    pd = pytest.importorskip("pandas", reason="pandas is optional")
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    model = LogisticRegression().fit(table, table["a"] > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert onnxport.convert(model, inputs=table.to_numpy(np.float32)).report.passed


def test_blocks_of_several_threads_leave_the_filters_as_they_were():
    before = list(warnings.filters)
    with entered_elsewhere(warnings_kept()), warnings_kept(), warnings.catch_warnings(record=True) as caught:
        warnings.warn("of no news", stacklevel=1)
        assert caught == []
    assert warnings.filters == before
    with pytest.warns(UserWarning, match="news"):
        warnings.warn("news", stacklevel=1)
