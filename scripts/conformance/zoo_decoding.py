"""Greedy decoding with the cache as inputs and outputs of a file, in onnxruntime, against transformers' ``generate``."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from onnxport.errors import OnnxportError
from onnxport.graph.cache_names import is_cache

PROMPT, LONG, TOKENS, ROWS = 5, 115, 6, (1, 3)
Finding = tuple[str, str, str]


def findings(model: Any, inputs: dict[str, Any]) -> Iterator[Finding]:
    """The step of a decoder without an encoder: converted, proved and run as a loop; nothing for other models."""
    if (
        set(inputs) - {"input_ids", "attention_mask", "token_type_ids"}
        or not hasattr(model, "can_generate")
        or not model.can_generate()
    ):
        return
    name = _cache_of(model)
    if name is None:
        return
    length = PROMPT
    verdict, reason, made, whole = _checked(model, name, length)
    if verdict == "unproved" and "no elements" in reason:  # of parts of a cache that begin behind so many tokens
        length = LONG
        verdict, reason, made, whole = _checked(model, name, length)
    if verdict != "agrees":
        yield f"step with {name}", verdict, reason
        return
    for rows in ROWS:
        verdict, reason = _decodes(model, made, name, rows, length, whole)
        if verdict != "agrees":
            break
    yield f"step with {name}, greedy loop", verdict, reason


def _checked(model: Any, name: str, length: int) -> tuple[str, str, Any, bool]:
    """Verdict and reason on the step behind a prompt, what was converted, and whether the step takes all tokens again."""
    from scripts.conformance.zoo import check

    step, whole = _step(model, name, 2, length)
    return *check(model, step, dynamic_shapes=_shapes(step, name, whole)), whole


def _prompt(model: Any, rows: int, length: int = PROMPT) -> Any:
    import torch

    high = min(int(getattr(model.config.get_text_config(), "vocab_size", 60)), 60)
    return torch.randint(3, high, (rows, length), generator=torch.Generator().manual_seed(rows))


def _filled(model: Any, rows: int, length: int = PROMPT) -> Any:
    """What the model gives for a prompt."""
    import torch

    with torch.no_grad():
        return model(_prompt(model, rows, length), use_cache=True)


def _cache_of(model: Any) -> str | None:
    """The name of the cache among the outputs that is also a parameter; None where the model has none."""
    import inspect

    try:
        result = _filled(model, 2)
    except Exception:
        return None
    parameters = inspect.signature(model.forward).parameters
    names = [name for name, item in getattr(result, "items", dict)() if is_cache(type(item)) and name in parameters]
    return names[0] if len(names) == 1 else None


def _step(model: Any, name: str, rows: int, length: int) -> tuple[dict[str, Any], bool]:
    """The inputs of the step behind the prompt: its first new token, and the cache; a mask where the cache holds keys.

    Models that leave out themselves what the cache holds take all tokens again; the second tells those.
    """
    import torch

    result = _filled(model, rows, length)
    step = {"input_ids": result.logits[:, -1:].argmax(-1)}
    if name == "past_key_values":
        step["attention_mask"] = torch.ones(rows, length + 1, dtype=torch.int64)
    every = {**step, "input_ids": torch.cat([_prompt(model, rows, length), step["input_ids"]], 1)}
    whole = not _runs(model, {**step, name: copy.deepcopy(result[name])})
    whole = whole and _runs(model, {**every, name: copy.deepcopy(result[name])})
    return {**(every if whole else step), name: copy.deepcopy(result[name])}, whole


def _runs(model: Any, inputs: dict[str, Any]) -> bool:
    import torch

    try:
        with torch.no_grad():
            model(**inputs)
    except Exception:  # whatever the model raises on inputs that it does not take
        return False
    return True


def _shapes(step: dict[str, Any], name: str, whole: bool) -> dict[str, Any]:
    tokens = {0: "batch", 1: "total"}
    shapes: dict[str, Any] = {"input_ids": tokens if whole else {0: "batch"}, name: {0: "batch", 2: "past"}}
    if "attention_mask" in step:
        shapes["attention_mask"] = tokens
    return shapes


def _decodes(model: Any, made: Any, name: str, rows: int, length: int, whole: bool) -> tuple[str, str]:
    """Whether a greedy loop in onnxruntime gives the tokens of ``generate``."""
    import numpy as np
    import torch
    import transformers
    from torch.utils import _pytree as pytree

    from onnxport.tracing import pytorch_classes

    prompt = _prompt(model, rows, length)
    mask = torch.ones_like(prompt)
    try:
        with torch.no_grad():
            settings = transformers.GenerationConfig(
                max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, bos_token_id=1
            )
            model.generation_config = settings  # no token is forced, or left out
            wanted = model.generate(prompt, attention_mask=mask, generation_config=settings)[:, length:].numpy()
    except Exception as error:
        return "unproved", f"generate: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
    if wanted.ndim != 2:  # codes of sounds, several a step, by a loop of the model's own
        return "unproved", f"generate: gives no tokens but an array of shape {list(wanted.shape)}"
    step, _ = _step(model, name, rows, length)
    before = pytorch_classes.count()
    pytorch_classes.register_caches()
    try:
        tensors = [leaf.numpy() for leaf in pytree.tree_leaves(step[name])]
    finally:
        pytorch_classes.take_back(before)
    past = [item for item in made.input_names if item.startswith(f"{name}.")]
    feeds = dict(zip(past, tensors, strict=True))
    tokens = [step["input_ids"][:, -1:].numpy()]
    for count in range(1, TOKENS):
        fed = {"input_ids": np.concatenate([prompt.numpy(), *tokens], axis=1) if whole else tokens[-1], **feeds}
        if "attention_mask" in step:
            fed["attention_mask"] = np.ones((rows, length + count), np.int64)
        fed = {key: value for key, value in fed.items() if key in made.input_names}
        try:
            results = dict(zip(made.output_names, made(**fed), strict=True))
        except OnnxportError as error:
            return "defect", f"batch {rows}, token {count}: {str(error).splitlines()[0]}"
        tokens.append(results["logits"][:, -1].argmax(-1)[:, None])
        feeds = {item: results[f"present.{item.partition('.')[2]}"] for item in past}
    got = np.concatenate(tokens, axis=1)
    if np.array_equal(got, wanted):
        return "agrees", ""
    return "wrong", f"batch {rows}: {got[:, :].tolist()} instead of {wanted.tolist()}"
