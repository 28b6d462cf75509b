"""Random pipelines on random data, rows on trees' thresholds among it: no number differs from scikit-learn's.

``python -m scripts.conformance.random_pipelines`` draws thousands of them.
"""

import pytest

pytest.importorskip("sklearn")
pytestmark = pytest.mark.sklearn

from hypothesis import HealthCheck, assume, event, given, settings  # noqa: E402

from scripts.conformance.pipeline_draws import draws  # noqa: E402
from scripts.conformance.random_pipelines import Impossible, judged  # noqa: E402


@given(draws())
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_number_differs(drawn):
    try:
        outcome = judged(drawn)
    except Impossible:  # scikit-learn itself can't
        assume(False)
    event(outcome.verdict)
    assert outcome.verdict in ("right", "refused"), f"{outcome.method}: {outcome.reason}"
