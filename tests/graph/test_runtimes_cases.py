"""A seeded sample of all entries' cases, each at one opset: saved, opened and run by onnxruntime with its default optimisations.

``scripts/conformance/runtimes.py`` runs all of them at all opsets.
"""

import random

import pytest

for framework in ("torch", "tensorflow", "keras", "sklearn"):
    pytest.importorskip(framework)
pytestmark = [pytest.mark.pytorch, pytest.mark.tensorflow, pytest.mark.keras, pytest.mark.sklearn]

from onnxport.errors import InvalidInputError  # noqa: E402
from scripts.conformance import runtimes  # noqa: E402

SAMPLED = {"pytorch": 12, "tensorflow": 18, "keras": 18, "sklearn": 12}
# Cases that onnxruntime does not load or gets wrong: framework, name, opset. It only ever becomes shorter.
EXCEPTIONS: dict[tuple[str, str, int], str] = {}


def sample():
    draw = random.Random(0)
    for framework, count in SAMPLED.items():
        for position, case in enumerate(draw.sample(list(getattr(runtimes, framework)()), count)):
            yield framework, case, runtimes.OPSETS[position % len(runtimes.OPSETS)]


@pytest.mark.parametrize(
    ("framework", "case", "opset"), [pytest.param(*row, id=f"{row[0]}-{row[1].name}-{row[2]}") for row in sample()]
)
def test_case_runs_in_onnxruntime(framework, case, opset, tmp_path):
    try:
        ready = case.make()
    except InvalidInputError:
        pytest.skip("the estimator has no such method: its entry has another case that does")
    (outcome,) = runtimes.judged(framework, case.name, ready, opset, tmp_path, None)
    expected = EXCEPTIONS.get((framework, case.name, opset))
    if expected is not None:
        assert outcome.verdict == expected, "it works now: take it out of EXCEPTIONS"
        return
    assert outcome.verdict in ("right", "random", "refused"), outcome.reason
    if outcome.verdict == "refused":
        assert "opset" in outcome.reason
