"""scikit-learn estimators: methods called by the names of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnxport.errors import InvalidInputError, OnnxportError
from onnxport.graph import rows
from onnxport.graph.outputs import SEVERAL, Output
from onnxport.validation import tolerance
from onnxport.validation.numerics import Numerics
from onnxport.validation.runners.base import Binding, Example, InputSpec, Outputs, Runner
from onnxport.validation.runners.sklearn_arithmetic import added_up_exactly, moved, numerics_of
from onnxport.validation.runners.sklearn_categories import categories_by_leaf
from onnxport.validation.runners.sklearn_inner import watched
from onnxport.validation.runners.sklearn_outputs import call, produced, provider

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

# By the output's name, results of methods that give several, in scikit-learn's order.
_RESULTS = {**SEVERAL, "transform": ("x", "y")}
_SEVERAL: dict[str, tuple[str, int | None]] = {
    f"{method}_{name}": (method, index) for method, names in _RESULTS.items() for index, name in enumerate(names)
}
TableOf = Callable[[Sequence[Any]], Any]  # puts leaves together into what an estimator takes
_BLIND = 2.0**-35  # a move that float64 shows and float32 does not


class SklearnRunner(Runner):
    """Runs an estimator; leaves are the columns of a table, or one matrix."""

    framework: ClassVar[str] = "sklearn"
    own_dtypes: ClassVar[bool] = True
    tabular: ClassVar[bool] = True
    inner_forms_vary: ClassVar[bool] = True
    names_are_steady: bool = False  # operators that stand for several steps of a formula have the name of one

    def __init__(
        self, estimator: BaseEstimator, example: Example | None, table: TableOf, outputs: Sequence[Output]
    ) -> None:
        super().__init__(type(estimator).__name__, example)
        self.estimator = estimator
        self._table = table
        self._outputs = outputs

    @property
    def allows_missing(self) -> bool:
        """Whether the estimator takes NaN for a missing value."""
        from sklearn.utils import get_tags

        try:
            return bool(get_tags(self.estimator).input_tags.allow_nan)
        except (AttributeError, TypeError, ValueError):  # an estimator without tags
            return False

    @cached_property
    def _exact(self) -> Any:
        return added_up_exactly(self.estimator)

    @property
    def adds_up_exactly(self) -> bool:
        """Whether it holds a kernel density."""
        return self._exact is not None

    @property
    def categories(self) -> Mapping[tuple[int, int], np.ndarray]:
        """Those of its encoders; none where their columns are not known."""
        backwards = any(output.method == "inverse_transform" for output in self._outputs)
        names = self.example.names if self.example is not None and not backwards else ()
        try:
            return categories_by_leaf(self.estimator, names) if names else {}
        except (AttributeError, IndexError, TypeError, ValueError):  # an estimator that only looks like one of theirs
            return {}

    @property
    def dtypes_vary(self) -> bool:
        """Whether an encoder of category_encoders is part of it: unknown and missing cells make floats of its integers."""
        return _of_pandas(self.estimator)

    def run(self, leaves: Sequence[Any]) -> Outputs:
        """One result for each output."""
        return produced(self.estimator, self._outputs, self._table(leaves))

    def refuses(self, error: Exception) -> bool:
        """Whether it is scikit-learn's check of its inputs: of NaN, unknown categories, no rows."""
        own = isinstance(error, ValueError) and not isinstance(error, OnnxportError)
        return own and not getattr(self.estimator, "graph_outputs", ())

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """What the estimators inside give, by their places and methods: ``scale:StandardScaler.transform``."""
        results: dict[str, Any] = {}
        try:
            self.each_intermediate(leaves, results.__setitem__)
        except Exception:  # of a user's own estimator, which need not be copied
            return {}
        return results

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """The same as they come."""
        once: set[str] = set()

        def first(name: str, value: Any) -> None:
            if name not in once:  # several outputs run the same steps
                once.add(name)
                take(name, value)

        produced(watched(self.estimator, first), self._outputs, self._table(leaves))

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """The same on inputs in float64 (trees compare in the type of the converted model's input all the same).

        A kernel density adds up its points one by one: scikit-learn's own way loses digits in its tree, in float64 too.
        """
        if self._exact is not None:
            return produced(self._exact, self._outputs, self._table(leaves))
        if not any(isinstance(leaf, np.ndarray) and leaf.dtype in (np.float32, np.float16) for leaf in leaves):
            return None
        floating = [isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f" for leaf in leaves]
        try:
            return self.run([leaf.astype(np.float64) if is_one else leaf for leaf, is_one in zip(leaves, floating)])
        except (TypeError, ValueError):
            return None

    @cached_property
    def numerics(self) -> Numerics:
        """Whether it holds trees, and the longest sum that its fitted arrays show."""
        return numerics_of(self.estimator)

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """float32's where the results do not change at all when float64 inputs move by less than float32 tells apart."""
        wide = [i for i, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray) and leaf.dtype == np.float64]
        if not wide:
            return None
        beside, single = list(leaves), list(leaves)
        for place in wide:
            beside[place] = leaves[place] * (1 + _BLIND)
            single[place] = beside[place].astype(np.float32).astype(np.float64)
        try:
            pairs = zip(self.run(beside), self.run(single), strict=True)
            same = all(np.array_equal(np.asarray(a), np.asarray(b)) for (_, a), (_, b) in pairs)
        except (TypeError, ValueError):
            return None
        return 2.0**-23 if same else None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Results of a copy whose fitted numbers have moved, but for those of trees."""
        return produced(moved(self.estimator, units, seed), self._outputs, self._table(leaves))

    def says_columns(self, name: str) -> bool:
        """Whether it is what a transformer or a regressor of several targets gives: also of a table of one row."""
        return name in ("variable", "transform", "inverse_transform")

    def says_probabilities(self, name: str) -> bool:
        """Whether it is what `predict_proba` gives."""
        output = self._output(name)
        return output is not None and output.method == "predict_proba"

    def says_labels(self, name: str) -> bool:
        """Whether it is what a classifier predicts."""
        from sklearn.base import is_classifier

        output = self._output(name)
        return output is not None and output.method == "predict" and is_classifier(self.estimator)

    def _output(self, name: str) -> Output | None:
        recorded = (item for item in self._outputs if item.name == name)
        return next(recorded, None) or behind(self.estimator, name)

    def undecided(self, leaves: Sequence[Any], name: str, slack: float) -> np.ndarray | None:
        """Rows whose best two scores lie closer together than `slack` times the scores' scale; neighbours at equal distances."""
        output = self._output(name)
        if output is not None and output.method == "kneighbors" and output.index == 1:
            return self._tied_neighbours(leaves, slack)
        scores = self._scores(leaves) if output is not None and output.method == "predict" else None
        if scores is None:
            return None
        scores = np.asarray(scores, np.float64)
        if scores.ndim == 2 and scores.shape[1] == 1:
            scores = scores[:, 0]
        return tolerance.tied(scores, slack) if scores.ndim in (1, 2) else None

    def _tied_neighbours(self, leaves: Sequence[Any], slack: float) -> np.ndarray:
        """Places among the neighbours whose distance the place before or after has too."""
        finder = provider(self.estimator, "kneighbors")
        count = min(finder.n_neighbors + 1, finder.n_samples_fit_)
        distance = np.asarray(call(self.estimator, "kneighbors", self._table(leaves), n_neighbors=count)[0], np.float64)
        close = np.diff(distance, axis=1) <= slack * np.max(np.abs(distance), initial=0.0)
        after = np.pad(close, ((0, 0), (0, distance.shape[1] - close.shape[1])))
        before = np.pad(close, ((0, 0), (1, 0)))[:, : distance.shape[1]]
        return np.asarray((before | after)[:, : finder.n_neighbors])

    def hint(self, leaves: Sequence[Any]) -> str:
        """Neighbours at equal distances, of which the last place among the nearest has one and another place none."""
        finder = provider(self.estimator, "kneighbors")
        if not hasattr(finder, "kneighbors") or not hasattr(finder, "n_neighbors"):
            return ""
        tied = self._tied_neighbours(leaves, 2.0**-40)
        count = int(np.count_nonzero(tied[:, -1]))
        if not count:
            return ""
        return (
            f"{count} of {len(tied)} rows have neighbours at equal distances, of which scikit-learn takes those that its search "
            "meets first; if these rows alone differ, pass validate=False"
        )

    def _scores(self, leaves: Sequence[Any]) -> Any:
        table = self._table(leaves)
        for method in ("decision_function", "predict_proba", "transform"):
            if method == "transform" and not hasattr(self.estimator, "cluster_centers_"):
                continue
            if hasattr(self.estimator, method):
                try:
                    scores = getattr(self.estimator, method)(table)
                except (AttributeError, NotImplementedError, ValueError):
                    continue
                return -scores if method == "transform" else scores  # distances: the least wins
        return None


def bind(model: BaseEstimator, binding: Binding) -> SklearnRunner:
    """A runner of a fitted estimator or pipeline."""
    own = getattr(model, "graph_outputs", ())  # of an estimator that runs an ONNX model
    outputs = own or binding.produced or _called(model, binding)
    inputs = binding.inputs
    if isinstance(inputs, tuple) and len(inputs) == 1:
        inputs = inputs[0]
    if inputs is None and binding.kwargs:
        inputs = dict(binding.kwargs)
    if inputs is None and own:
        return SklearnRunner(model, None, tuple, outputs)
    if inputs is None:
        return SklearnRunner(model, None, _table_for(model, binding.specs), outputs)
    example, table = take_apart(inputs, binding.specs, fitted=getattr(model, "feature_names_in_", ()))
    return SklearnRunner(model, example, table, outputs)


def _called(model: BaseEstimator, binding: Binding) -> tuple[Output, ...]:
    """For each output of the graph the method that gives it; the user may have named it otherwise."""
    names = binding.output_names or ()
    outputs = [behind(model, name) for name in names]
    if not names or None in outputs:
        usual = binding.methods or default_outputs(model)
        if names and len(usual) != len(names):
            raise InvalidInputError(
                f"no method of {type(model).__name__} is behind the outputs {', '.join(names)}: pass methods=[...]"
            )
        outputs = [behind(model, name) for name in usual]
        for name, output in zip(usual, outputs, strict=True):
            if output is None:
                raise InvalidInputError(f"{type(model).__name__} has no method behind the output {name!r}")
    return tuple(output for output in outputs if output is not None)


def behind(estimator: BaseEstimator, name: str) -> Output | None:
    """The method behind an output of this name, and which of its results; None where the estimator has none."""
    method, index = name, None
    if name in ("label", "output_label"):
        method = "predict"
    elif name in ("probabilities", "output_probability"):
        method = "predict_proba" if hasattr(estimator, "predict_proba") else "decision_function"
    elif name == "variable":
        method = "predict" if hasattr(estimator, "predict") else "transform"
    elif name == "scores" and not hasattr(estimator, "scores"):
        method = "decision_function" if hasattr(estimator, "decision_function") else "score_samples"
    elif name != "predict_std" and not hasattr(estimator, name):
        stem, _, last = name.rpartition("_")
        stem = "predict_proba" if stem == "probabilities" else stem
        method, index = _SEVERAL.get(name, (stem, int(last)) if last.isdecimal() else ("", None))
    known = hasattr(estimator, "predict" if method == "predict_std" else method)
    return Output(name, method, index) if known else None


def default_outputs(estimator: BaseEstimator) -> tuple[str, ...]:
    """Names of the outputs that a conversion without `methods` gives."""
    from sklearn.base import is_classifier

    if is_classifier(estimator):
        scored = hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")
        return ("label", "probabilities") if scored else ("label",)
    return ("variable",)


def take_apart(
    inputs: Any, specs: Sequence[InputSpec] | None, *, fitted: Sequence[Any] = ()
) -> tuple[Example, TableOf]:
    """Leaves of a table and the function that puts them together again; `fitted` names the columns of matrices in a dict.

    A DataFrame (or dict of columns) is one leaf a column where the graph has one input a column, shaped as the graph
    declares it; an array or list is one leaf.
    """
    columns = rows.columns_of(inputs)
    whole, aside = inputs, []
    if columns is not None and specs is not None and rows.is_frame(inputs):  # the graph has no inputs of dates or lists
        aside = [label for label in inputs.columns if rows.has_no_type(columns[str(label)])]
    if columns is not None and aside:
        inputs = inputs[[label for label in inputs.columns if label not in aside]]
        columns = {name: columns[name] for name in map(str, inputs.columns)}
    if columns is not None and not (specs is not None and len(specs) == 1 and len(columns) > 1):
        ranks = [len(spec.dims) if spec.dims is not None else 2 for spec in specs] if specs is not None else []
        flat = bool(ranks) and ranks[0] == 1
        leaves = tuple(values.reshape(-1) if flat else values for values in columns.values())
        original = inputs

        def frame(leaves: Sequence[Any]) -> Any:
            table = _frame(dict(zip(columns, leaves, strict=True)), original, fitted)
            return _beside(table, whole, aside) if aside else table

        return Example(tuple(columns), leaves), frame
    dims = specs[0].dims if specs else None
    frame_like = columns is not None
    listed = rows.is_lists(inputs) and len({len(row) for row in inputs}) > 1
    if hasattr(inputs, "toarray"):
        array = np.asarray(inputs.toarray())
    else:
        array = rows.padded(inputs) if listed else rows.plain(inputs)
    flat_strings = array.ndim == 1

    def matrix(leaves: Sequence[Any]) -> Any:
        leaf = np.asarray(leaves[0])
        if listed:
            return [[item for item in row if item] for row in leaf]
        if flat_strings:
            return list(leaf.ravel())
        if hasattr(inputs, "toarray"):
            return type(inputs)(leaf)  # an estimator may tell what a sparse matrix leaves out from zeros
        return _frame({str(name): leaf[:, i] for i, name in enumerate(inputs.columns)}, inputs) if frame_like else leaf

    leaf = array.reshape(-1, 1) if flat_strings and dims is not None and len(dims) == 2 else array
    return Example((specs[0].name if specs else "X",), (leaf,)), matrix


def _of_pandas(estimator: BaseEstimator) -> bool:
    if type(estimator).__module__.partition(".")[0] == "category_encoders":
        return True
    parts = [*getattr(estimator, "steps", ())[-1:], *getattr(estimator, "transformer_list", ())]
    parts += getattr(estimator, "transformers_", ())
    return any(_of_pandas(part[1]) for part in parts)


def _frame(columns: dict[str, Any], like: Any, fitted: Sequence[Any] = ()) -> Any:
    if isinstance(like, Mapping):
        columns = _apart(columns, fitted)
    flat = {name: np.asarray(leaf).reshape(-1) for name, leaf in columns.items()}
    if rows.is_records(like):
        cells = (zip(flat, row, strict=True) for row in zip(*flat.values()))
        return [{name: value for name, value in row if value != ""} for row in cells]
    if isinstance(like, Mapping):
        import pandas as pd

        return pd.DataFrame(flat)
    kind = type(like)
    if kind.__module__.partition(".")[0] == "polars":
        return kind({name: (list(v) if v.dtype == object else v) for name, v in flat.items()})
    named = dict(zip(like.columns, flat.values(), strict=True))
    frame = kind(named)
    for name, values in named.items():
        if str(like[name].dtype) == "category":
            # numbers are none of its categories
            if like[name].cat.categories.dtype == bool and values.dtype.kind == "f":
                frame[name] = [None if value != value else bool(value) for value in values]
            frame[name] = frame[name].astype(like[name].dtype)
        elif like[name].dtype == object and values.dtype == object:  # pandas would make strings, whose None is NaN
            frame[name] = type(like[name])(values, dtype=object)
    return frame


def _apart(columns: dict[str, Any], fitted: Sequence[Any]) -> dict[str, Any]:
    """The columns of matrices by their fitted names, in order; by place where there are none."""
    if all(np.ndim(leaf) < 2 or np.shape(leaf)[1] == 1 for leaf in columns.values()):
        return columns
    matrices = {name: np.reshape(leaf, (len(leaf), -1)) for name, leaf in columns.items()}
    parts = [(f"{name}.{i}", leaf[:, i]) for name, leaf in matrices.items() for i in range(leaf.shape[1])]
    names = list(map(str, fitted)) if len(fitted) == len(parts) else [name for name, _ in parts]
    return {name: part for name, (_, part) in zip(names, parts, strict=True)}


def _beside(frame: Any, original: Any, names: Sequence[Any]) -> Any:
    """A frame with some of the original's columns, repeated to its length, all in the original's order."""
    places = np.arange(len(frame)) % len(original)
    if type(frame).__module__.partition(".")[0] == "polars":
        return frame.with_columns([original[name].gather(places) for name in names]).select(original.columns)
    for name in names:
        frame[name] = original[name].to_numpy()[places]
    return frame[list(original.columns)]


def _table_for(model: BaseEstimator, specs: Sequence[InputSpec] | None) -> TableOf:
    """How leaves that were drawn from a graph's signature become the estimator's input."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    if specs is not None and len(specs) > 1:
        columns = [spec.name for spec in specs]

        def frame(leaves: Sequence[Any]) -> Any:
            import pandas as pd

            flat = (np.asarray(leaf).reshape(-1) for leaf in leaves)
            return pd.DataFrame(dict(zip(columns, flat, strict=True)))

        return frame

    def single(leaves: Sequence[Any]) -> Any:
        leaf = np.asarray(leaves[0])
        if leaf.dtype == object and (leaf.ndim == 1 or leaf.shape[1] == 1) and not names:
            return list(leaf.ravel())
        if names and leaf.ndim == 2 and leaf.shape[1] == len(names):
            import pandas as pd

            return pd.DataFrame(leaf, columns=names)
        return leaf

    return single
