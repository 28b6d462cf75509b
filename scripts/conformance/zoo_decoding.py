"""Greedy decoding with the cache as inputs and outputs of a file, in onnxruntime, against transformers' ``generate``.

Where ``generate`` gives no tokens of the prompt's kind (several codes of a sound a step) or does not take the prompt, the same
loop is run over the model itself in PyTorch.
"""

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
    verdict, reason, made = check(model, step, dynamic_shapes=_shapes(step, name, whole))
    if verdict == "defect" and "attention_mask" in step and not whole:  # on masks of other lengths than the keys
        verdict, reason, made = check(model, step, dynamic_shapes=_shapes(step, name, whole, related=True))
    return verdict, reason, made, whole


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
    step = {"input_ids": _greatest(model, result.logits)}
    if name == "past_key_values":
        step["attention_mask"] = torch.ones(rows, length + 1, dtype=torch.int64)
    every = {**step, "input_ids": torch.cat([_prompt(model, rows, length), step["input_ids"]], 1)}
    whole = not _runs(model, {**step, name: copy.deepcopy(result[name])})
    whole = whole and _runs(model, {**every, name: copy.deepcopy(result[name])})
    return {**(every if whole else step), name: copy.deepcopy(result[name])}, whole


def _greatest(model: Any, logits: Any) -> Any:
    """The most likely next token of each row, among those that the model's embedding takes."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    return logits[:, -1:, : None if weight is None else weight.shape[0]].argmax(-1)


def _runs(model: Any, inputs: dict[str, Any]) -> bool:
    import torch

    try:
        with torch.no_grad():
            model(**inputs)
    except Exception:  # whatever the model raises on inputs that it does not take
        return False
    return True


def _shapes(step: dict[str, Any], name: str, whole: bool, related: bool = False) -> dict[str, Any]:
    """The dynamic dimensions of a step; `related` tells that the mask is as long as the cache and the new token."""
    import torch

    past: Any = torch.export.Dim("past") if related else "past"
    tokens = {0: "batch", 1: past + 1 if related else "total"}
    shapes: dict[str, Any] = {"input_ids": tokens if whole else {0: "batch"}, name: {0: "batch", 2: past}}
    if "attention_mask" in step:
        shapes["attention_mask"] = tokens
    return shapes


def _generated(model: Any, prompt: Any) -> Any:
    """The tokens that ``generate`` gives behind a prompt; None where it gives none."""
    import torch
    import transformers

    settings = transformers.GenerationConfig(max_new_tokens=TOKENS, do_sample=False, pad_token_id=0, bos_token_id=1)
    held, model.generation_config = model.generation_config, settings  # no token is forced, or left out
    try:
        with torch.no_grad():
            tokens = model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=settings)
    except Exception:  # whatever the model's own loop raises on a prompt that it does not take
        return None
    finally:
        model.generation_config = held
    return tokens[:, prompt.shape[1] :].numpy() if isinstance(tokens, torch.Tensor) and tokens.dim() == 2 else None


def _looped(model: Any, name: str, rows: int, length: int, whole: bool) -> Any:
    """The tokens of a greedy loop over the model itself."""
    import torch

    step, _ = _step(model, name, rows, length)
    tokens, cache = [step["input_ids"][:, -1:]], step[name]
    for count in range(1, TOKENS):
        fed = {"input_ids": torch.cat([_prompt(model, rows, length), *tokens], 1) if whole else tokens[-1], name: cache}
        if "attention_mask" in step:
            fed["attention_mask"] = torch.ones(rows, length + count, dtype=torch.int64)
        with torch.no_grad():
            result = model(**fed, use_cache=True)
        tokens.append(_greatest(model, result.logits))
        cache = result[name]
    return torch.cat(tokens, 1).numpy()


def _decodes(model: Any, made: Any, name: str, rows: int, length: int, whole: bool) -> tuple[str, str]:
    """Whether a greedy loop in onnxruntime gives the tokens of ``generate``."""
    import numpy as np
    import torch
    from torch.utils import _pytree as pytree

    from onnxport.tracing import pytorch_classes

    prompt = _prompt(model, rows, length)
    wanted = _generated(model, prompt)
    if wanted is None:
        wanted = _looped(model, name, rows, length, whole)
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
        tokens.append(_greatest(model, torch.from_numpy(results["logits"])).numpy())
        feeds = {item: results[f"present.{item.partition('.')[2]}"] for item in past}
    got = np.concatenate(tokens, axis=1)
    if np.array_equal(got, wanted):
        return "agrees", ""
    return "wrong", f"batch {rows}: {got[:, :].tolist()} instead of {wanted.tolist()}"
