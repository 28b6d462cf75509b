"""What runs of TensorFlow's kernels share: what they do unlike others, and the further runs of their traced graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from onnxport.validation.runners.base import Outputs, Runner

if TYPE_CHECKING:
    from onnxport.validation.runners.tensorflow_wide import FrozenTwin, Twins


class TracedRunner(Runner):
    """A model that TensorFlow traces; one that it can't trace, as Keras on another backend, has no twins."""

    # TensorFlow 2.21's convolutions of no rows raise an error, or keep the size of the image.
    windows_without_rows: ClassVar[bool] = False
    products_keep_nan: ClassVar[bool] = False  # a Relu fused with the convolution or product before may make 0 of NaN
    inner_forms_vary: ClassVar[bool] = True
    _twins: Twins | None = None

    @abstractmethod
    def _named(self, result: object) -> Outputs:
        """The outputs in what a call gives."""

    def _twin(self, leaves: Sequence[Any]) -> FrozenTwin | None:
        return self._twins.twin(leaves)[0] if self._twins is not None else None

    def coarse(self, leaves: Sequence[Any]) -> float | None:
        """Of the types in the traced graph."""
        twin = self._twin(leaves)
        return twin.coarse if twin is not None else None

    def computes_complex(self, leaves: Sequence[Any]) -> bool:
        """Whether a node of the traced graph has complex numbers."""
        twin = self._twin(leaves)
        return twin is not None and twin.computes_complex

    def run_float64(self, leaves: Sequence[Any]) -> Outputs | None:
        """Outputs of the traced graph in float64; None where an operator has no kernel for it."""
        result = self._twins.float64(leaves) if self._twins is not None else None
        return self._named(result) if result is not None else None

    def run_moved(self, leaves: Sequence[Any], units: int, seed: int) -> Outputs | None:
        """Outputs of the traced graph with moved weights; of the model itself where it can't be frozen."""
        result = self._twins.moved(leaves, units, seed) if self._twins is not None else None
        return self._named(result) if result is not None else self.run(leaves)

    def intermediates(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """Results of the traced graph's operators by node name."""
        results: dict[str, Any] = {}
        try:
            self.each_intermediate(leaves, results.__setitem__)
        except Exception:  # a graph that can't be put together again: the search does without
            return {}
        return results

    def each_intermediate(self, leaves: Sequence[Any], take: Callable[[str, Any], None]) -> None:
        """The same, some at a time."""
        if self._twins is not None:
            self._twins.each_inner(leaves, take)
