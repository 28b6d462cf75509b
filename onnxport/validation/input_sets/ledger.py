"""Which sets of inputs a proof has time and memory for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from onnxport.graph.guard.bounds import left_elsewhere, spent_elsewhere
from onnxport.validation.input_sets.base import InputSet
from onnxport.validation.runners import Outputs

# The sets beyond the first one may take this many seconds, or this many times the first one's, whichever is more.
_SECONDS, _TIMES = 1.0, 3.0
# ... and hold this many bytes, or this many times the first one's.
_BYTES, _BYTES_TIMES = 64 << 20, 4
# ... and give this many, or as many times the first one's: both sides give them, some several times.
_OUTPUT_BYTES = 128 << 20
# Where a file's runs have a bound of their own, a set is only run where there is time to judge it: the source's float64 run
# and its moved runs cost so many times what one run does, unless that is next to nothing.
_JUDGEMENT, _QUICK = 20, 0.02
_DEAR = 0.1  # where a run of the source takes as many seconds, one more is not worth what it adds to the times of later sets


class Ledger:
    """Keeps the sets beyond the first one within their time and memory.

    What the first set took tells little of the others in a fresh process, where it loads things once. A set without time by
    that measure waits: the sets that do run tell what a run takes, and it gets a second turn.
    """

    def __init__(self) -> None:
        self._started = (time.perf_counter(), time.process_time(), spent_elsewhere())
        self._first, self._outputs = 1, 0  # bytes
        self._seconds, self._end = 0.0, 0.0
        self._later = float("inf")  # what a set like the first has taken since
        self._least = 0.0  # what the source alone has taken of it, where that is known
        self._again: Callable[[], bool] | None = None
        self._last = False
        self._group = 0  # the number of those candidates of which one is wanted, the same in both turns
        self._closed = False  # whether a larger one than those to come has run
        self._tried: set[str] = set()
        self._ran: set[str] = set()
        # Tried and run in the first turn.
        self._before: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
        self._waiting: list[tuple[float, bool]] = []  # how many times the first set's work, and whether it is certain
        self._refused: dict[int, list[str]] = {}  # names by group

    @property
    def left_out(self) -> list[str]:
        """The names of what was too large, or had no time."""
        return [name for name in dict.fromkeys(chain.from_iterable(self._refused.values())) if name not in self._ran]

    def has_run(self, *words: str) -> bool:
        """Whether a set has run whose name begins with any of these words."""
        return any(name.startswith(words) for name in self._ran)

    def open(self, first: InputSet, outputs: Outputs, again: Callable[[], bool]) -> None:
        """Takes the time and sizes of the first set, which has run and been judged; `again` runs both sides on it once more."""
        self._again = again
        self._first = max(bytes_of(first.leaves), 1)
        self._outputs = bytes_of(value for _, value in outputs)
        self._seconds = self.spent()
        self._end = self._seconds + max(_SECONDS, _TIMES * self._seconds)

    def second_turn(self) -> Iterator[None]:
        """One item where a set that waits can be in time now, or one more run may tell so."""
        self._last, self._before = True, (frozenset(self._tried), frozenset(self._ran))
        if any(self._in_time(*item) for item in self._waiting) or self._worth_asking():
            self._group = 0
            yield None

    def affordable(self, candidates: Iterable[InputSet]) -> Iterator[InputSet]:
        """Those candidates that are small enough and that there is time for, going by the first set's; the larger come first."""
        self._group, self._closed = self._group + 1, False
        self._refused[self._group] = []
        for item in candidates:
            if self.allows(item.name, bytes_of(item.leaves), cheap=item.cheap, certain=item.certain):
                self._tried.add(item.name)
                yield item
            elif self.spent() > self._end:  # drawing the others takes time too
                return

    def allows(self, name: str, size: int, *, cheap: bool = False, certain: bool = False) -> bool:
        """Whether a set of so many bytes is small enough and there is time for it; one that is not is left out."""
        tried, ran = self._before
        self._closed = self._closed or name in ran
        if self._closed or name in tried:
            return False
        share = self._share(size, cheap=cheap)
        given = self._outputs * size / self._first
        large = size > max(_BYTES, _BYTES_TIMES * self._first) or given > max(
            _OUTPUT_BYTES, _BYTES_TIMES * self._outputs
        )
        if not large:
            if self._in_time(share, certain):
                return True
            self._waiting.append((share, certain))
            if self._last and self._asked() and self._in_time(share, certain):
                return True
        self._refused[self._group].append(name)
        return False

    def learn(self, item: InputSet, source_seconds: float, seconds: float) -> None:
        """Takes the time of a later set, which has run and been judged: the first one's holds what is done once, as loading.

        The source alone took `source_seconds` of it.
        """
        self._ran.add(item.name)
        size = bytes_of(item.leaves)
        if not size:  # no rows take no time, which tells nothing of others
            return
        self._later = min(self._later, seconds / self._share(size, cheap=item.cheap))
        if size == self._first:  # of other sizes, for which a framework may compile the model anew, this does not hold
            self._least = min(self._least or source_seconds, source_seconds)

    def spent(self) -> float:
        """Seconds since the start: of the process where others hold the machine, of the clock where several threads work."""
        wall, own, helper = self._started
        return min(time.perf_counter() - wall, time.process_time() - own + spent_elsewhere() - helper)

    def _in_time(self, share: float, certain: bool, price: float | None = None) -> bool:
        """Whether so many times the first set's work, of this price or the known one, can be done in the time that is left."""
        later = (self._later if price is None else price) * share
        expected, spent = self._seconds * share, self.spent()
        # Where nothing is left to chance an output is the source's or it is not: no further run tells.
        run = min(expected, later)
        judged = _JUDGEMENT * run if run > _QUICK and not certain else 0.0
        soon = spent + expected <= self._end or (spent < self._end and later < _SECONDS / 2)
        return soon and judged <= left_elsewhere()

    def _worth_asking(self) -> bool:
        """Whether one more run on the first set is in time and may let a set in that waits, going by what the source takes."""
        late = self.spent() + min(self._seconds, self._later) > self._end
        if self._again is None or late or self._seconds > left_elsewhere() / 2:
            return False
        return self._least < _DEAR and any(self._in_time(*item, self._least) for item in self._waiting)

    def _asked(self) -> bool:
        """Whether one more run on the first set, of which there is one at most, tells that it takes less than the first."""
        if self._again is None or not self._worth_asking():
            return False
        again, self._again = self._again, None
        before = self.spent()
        if again():
            self._later = min(self._later, self.spent() - before)
        return self._later < self._seconds

    def _share(self, size: int, *, cheap: bool) -> float:
        """How many times the first set's work a set of so many bytes is."""
        return 1.0 if cheap else max(size / self._first, 0.2)


def bytes_of(leaves: Iterable[Any]) -> int:
    """The bytes of leaves, those in lists too; 8 for what is no array."""
    total = 0
    for leaf in leaves:
        total += bytes_of(leaf) if isinstance(leaf, list) else int(getattr(leaf, "nbytes", 8))
    return total
