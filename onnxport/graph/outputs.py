"""Which method of an estimator each output of a graph is, and in which form: written into the file for who validates it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

PRODUCED = "onnxport.outputs"  # the metadata key of the file
# Methods whose results are several, by the results' names.
SEVERAL = {"kneighbors": ("distances", "indices"), "radius_neighbors": ("distances", "indices")}
# What `predict` is asked for the raw scores of classes that need not have a decision function, by their package.
_RAW: dict[str, dict[str, Any]] = {
    "catboost": {"prediction_type": "RawFormulaVal"},
    "lightgbm": {"raw_score": True},
    "xgboost": {"output_margin": True},
}


@dataclass(frozen=True)
class Output:
    """One output of the graph."""

    name: str
    method: str  # the method behind it
    # Which of the method's results it is, by place or name; None for the only one.
    index: int | str | None = None
    step: str = ""  # path of the step whose method it is, steps' names joined by dots; "" for the estimator itself
    # "array"; "zipmap", a map from label to number for each row; "column", a column of it as a vector; "ints" and
    # "strings", labels by their number among the classes or as text; "pair", a score of two classes as a column for each,
    # the first negated, "turned pair", the second; each of these may be a "zipmap"; "row", labels of all rows
    # in one row.
    form: str = "array"
    column: int = 0


_USUAL = {field.name: field.default for field in fields(Output)}
# Of what stands in a file's metadata; json.dumps builds one at each call.
COMPACT = json.JSONEncoder(separators=(",", ":"))


def raw_scores(model: object) -> tuple[Any, dict[str, Any]] | None:
    """Whose `predict` gives the raw scores of a model, and asked for by what; None where it has none of its own.

    A search hands the question on to its best estimator, a pipeline takes it for its last step.
    """
    while hasattr(model, "best_estimator_"):
        model = model.best_estimator_
    last = model.steps[-1][1] if hasattr(model, "steps") else model
    packages = [base.__module__.partition(".")[0] for base in type(last).__mro__]
    return next(((model, _RAW[package]) for package in packages if package in _RAW), None)


def written(outputs: Sequence[Output], names: Sequence[str]) -> str:
    """The outputs as text, by the names that they have in the end; of one that is as by default the method alone.

    >>> written([Output("label", "predict"), Output("p", "predict_proba", form="zipmap")], ["y", "p"])
    '{"y":"predict","p":{"method":"predict_proba","form":"zipmap"}}'
    """
    given: dict[str, Any] = {}
    for output, name in zip(outputs, names, strict=True):
        others = {key: value for key, value in vars(output).items() if key != "name" and value != _USUAL[key]}
        given[name] = output.method if len(others) == 1 else others
    return COMPACT.encode(given)


def read(metadata: Mapping[str, str]) -> tuple[Output, ...]:
    """The outputs that a file's metadata tells of; none where it tells of none.

    >>> read({PRODUCED: written([Output("label", "predict")], ["y"])})
    (Output(name='y', method='predict', index=None, step='', form='array', column=0),)
    """
    try:
        given = json.loads(metadata.get(PRODUCED, "{}"))
        if isinstance(given, list):  # as the first files have them
            return tuple(Output(**item) for item in given)
        about = {name: item if isinstance(item, dict) else {"method": item} for name, item in given.items()}
        return tuple(Output(name, **item) for name, item in about.items())
    except (AttributeError, TypeError, ValueError):  # written by someone else
        return ()
