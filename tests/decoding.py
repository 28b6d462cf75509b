"""Greedy decoding with the file of a step, as its users write it."""

from typing import Any

import numpy as np
import onnxruntime


def decoded(session: onnxruntime.InferenceSession, prompt: Any, mask: Any, count: int) -> np.ndarray:
    """The tokens that greedy decoding appends, each step with the cache of the one before, the first with an empty one."""
    names = [item.name for item in session.get_inputs() if item.name.startswith("past_key_values.")]
    feeds = {name: np.zeros((len(prompt), 2, 0, 4), np.float32) for name in names}
    tokens, new, mask = [], prompt.numpy(), mask.numpy()
    for _ in range(count):
        places = (mask.cumsum(-1) - 1).clip(0)[:, -new.shape[1] :]
        fed = {"input_ids": new, "attention_mask": mask, "position_ids": places, **feeds}
        results = dict(zip([item.name for item in session.get_outputs()], session.run(None, fed), strict=True))
        new = results["logits"][:, -1].argmax(-1, keepdims=True)
        tokens.append(new)
        mask = np.concatenate([mask, np.ones_like(new)], axis=1)
        feeds = {name: results[name.replace("past_key_values", "present")] for name in names}
    return np.concatenate(tokens, axis=1)
