"""Greedy decoding with the files of a model that writes a sequence: each step's most likely token is the next one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

from onnxport.validation.comparison import OutputReport, Verdict
from onnxport.validation.tolerance import epsilon

Arrays = dict[str, np.ndarray]
_MARGIN = 64  # units in the last place of the largest score within which either of two tokens may be chosen


class Runnable(Protocol):
    """An ONNX model."""

    model: ir.Model

    @property
    def input_names(self) -> list[str]:
        """Names of its inputs."""

    @property
    def output_names(self) -> list[str]:
        """Names of its outputs."""

    def __call__(self, *inputs: object, **named: object) -> object:
        """Its outputs."""


@dataclass(frozen=True)
class Prompt:
    """What is to be continued: tokens, and which of them count."""

    tokens: np.ndarray
    mask: np.ndarray


def run(part: Runnable, feeds: Mapping[str, np.ndarray]) -> Arrays:
    """The outputs of a file by name; what it does not take is left out."""
    # Tokens are of one kind where nothing tells theirs, as the source itself takes it.
    if "token_type_ids" in part.input_names and "token_type_ids" not in feeds:
        feeds = {**feeds, "token_type_ids": np.zeros_like(feeds["input_ids"])}
    results = part(**{name: feeds[name] for name in part.input_names})
    values = results if isinstance(results, tuple) else (results,)
    return dict(zip(part.output_names, values, strict=True))


def reads_single_tokens(part: Runnable) -> bool:
    """Whether a file takes one token a row and no more."""
    value = next((item for item in part.model.graph.inputs if item.name == "input_ids"), None)
    return value is not None and value.shape is not None and value.shape[1] == 1


def decoded(first: Runnable, step: Runnable | None, prompt: Prompt, count: int) -> np.ndarray:
    """The tokens that a decoder appends.

    With a cache `first` takes an empty one, and is the step too, or it takes none and `step` what it gives; without one it takes
    everything again each time.
    """
    alone = reads_single_tokens(first)
    length = prompt.tokens.shape[1]
    tokens, end = prompt.tokens, 1 if alone else length
    cache = {name: _empty(first, name, len(tokens)) for name in _cached(first)}
    part, start = first, 0
    while True:
        mask = np.concatenate([prompt.mask, np.ones_like(tokens[:, length:])], axis=1)[:, :end]
        places = np.clip(np.cumsum(mask, axis=1) - 1, 0, None)[:, start:]
        feeds = {"input_ids": tokens[:, start:end], "attention_mask": mask, "position_ids": places, **cache}
        results = run(part, feeds)
        if end == tokens.shape[1]:
            token = np.argmax(results["logits"][:, -1].astype(np.float32), axis=-1)[:, None]
            tokens = np.concatenate([tokens, token], axis=1)
        if tokens.shape[1] == length + count:
            return tokens[:, length:]
        part = step or first
        cache = {name: results[_present(name)] for name in _cached(part)}
        start = end if _cached(part) else 0
        end += 1


def transcribed(
    encoder: Runnable, first: Runnable, step: Runnable | None, inputs: Arrays, start: int, count: int
) -> np.ndarray:
    """The tokens that an encoder and its decoder write, after `start`."""
    hidden = next(iter(run(encoder, inputs).values()))
    tokens = np.full((len(hidden), 1), start, np.int64)
    fixed = {"encoder_hidden_states": hidden}
    if "attention_mask" in inputs:
        fixed["encoder_attention_mask"] = inputs["attention_mask"]
    results = run(first, {"input_ids": tokens, **fixed})
    known = dict(results)
    for number in range(count):
        token = np.argmax(results["logits"][:, -1].astype(np.float32), axis=-1)[:, None]
        tokens = np.concatenate([tokens, token], axis=1)
        if number == count - 1:
            break
        if step is None:
            results = run(first, {"input_ids": tokens, **fixed})
            continue
        cache = {name: known[_present(name)] for name in _cached(step)}
        results = run(step, {"input_ids": token, **fixed, **cache})
        known.update(results)
    return tokens[:, 1:]


class WithMarks:
    """A decoder behind its table of tokens, which takes tokens; what was seen or heard stands in the places of a mark.

    `places` [axis, row, token] are those of the prompt where places are of three axes; each token after it is one further on all.
    """

    def __init__(
        self, table: Runnable, decoder: Runnable, features: np.ndarray, mark: int, places: np.ndarray | None
    ) -> None:
        self.model = decoder.model
        self.input_names = ["input_ids", *(name for name in decoder.input_names if name != "inputs_embeds")]
        self.output_names = decoder.output_names
        self._table, self._decoder, self._features, self._mark, self._places = table, decoder, features, mark, places

    def __call__(self, *_: object, **named: Any) -> object:
        """The decoder's outputs."""
        tokens = named.pop("input_ids")
        rows = np.array(run(self._table, {"input_ids": tokens})["inputs_embeds"])
        marks = tokens == self._mark
        if tokens.shape[1] > 1 and marks.any():  # in the prompt: a mark that is written is a token as others are
            rows[marks] = self._features
        if self._places is not None:
            length = self._places.shape[2]
            ahead = self._places.max(axis=(0, 2)) + 1 - length  # of a row, behind its prompt
            later = named["position_ids"] + ahead[:, None]
            named["position_ids"] = self._places if tokens.shape[1] == length else np.stack([later] * 3)
        return self._decoder(
            **{name: named[name] for name in self._decoder.input_names if name in named}, inputs_embeds=rows
        )


def judged_tokens(expected: np.ndarray, scores: np.ndarray, written: np.ndarray) -> OutputReport:
    """Whether the tokens are the source's; `scores` [step, row, token] are those by which it chose.

    Where a row differs first, its token may be another only if its score is as good but for rounding; nothing after it counts.
    """
    reasons, failed = [], False
    for row in range(len(expected)):
        differ = np.flatnonzero(expected[row] != written[row])
        if not len(differ):
            continue
        place = int(differ[0])
        values = scores[place, row].astype(np.float64)
        gap = float(values[expected[row, place]] - values[written[row, place]])
        finite = np.abs(values[np.isfinite(values)])
        allowed = _MARGIN * epsilon(scores.dtype) * float(np.max(finite, initial=0.0))
        words = f"row {row}: token {place} is {written[row, place]}, the source writes {expected[row, place]}"
        failed |= not gap <= allowed
        reasons.append(f"{words}; their scores are {gap:.3g} apart, allowed {allowed:.3g}")
    verdict: Verdict = "fail" if failed else "pass"
    return OutputReport("tokens", verdict, "; ".join(reasons), str(expected.dtype), expected.shape)


def _cached(part: Runnable) -> list[str]:
    outputs = set(part.output_names)
    return [name for name in part.input_names if "." in name and (_present(name) in outputs or ".encoder." in name)]


def _present(name: str) -> str:
    return f"present.{name.partition('.')[2]}"


def _empty(part: Runnable, name: str, rows: int) -> np.ndarray:
    """A cache of no tokens."""
    value = next(item for item in part.model.graph.inputs if item.name == name)
    shape, dtype = value.shape, value.dtype
    assert shape is not None
    assert dtype is not None
    sizes = [rows if axis == 0 else size if isinstance(size, int) else 0 for axis, size in enumerate(shape)]
    return np.zeros(sizes, dtype.numpy())
