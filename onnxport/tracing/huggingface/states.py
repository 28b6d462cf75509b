"""Caches of convolution states whose traces hold for prompts of every length.

A prompt shorter than the convolution's kernel is padded by transformers, a longer one is not, and a trace holds one of the two.
A trace here puts the prompt behind a state of zeros, as a later chunk stands behind the state before it: the same numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._guards import detect_fake_mode
from transformers import DynamicCache, PreTrainedConfig
from transformers.cache_utils import LinearAttentionCacheLayerMixin


class _BehindZeros(LinearAttentionCacheLayerMixin):
    """A layer of a cache that while tracing begins with states of zeros; else it is as transformers has it."""

    def update_conv_state(
        self, conv_states: torch.Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
    ) -> torch.Tensor:
        """The states before and the new ones; the last of them, as many as the kernel has, are kept."""
        given = {"conv_states": conv_states, "state_idx": state_idx, "conv_kernel_size": conv_kernel_size}
        begins = not self.has_previous_state[state_idx] and not self.record_past
        if begins and conv_kernel_size is not None and detect_fake_mode([conv_states]) is not None:
            if not self.is_conv_states_initialized[state_idx]:
                self.lazy_initialization(**given)
            self.has_previous_state[state_idx] = True
        result: torch.Tensor = super().update_conv_state(**given, **kwargs)  # type: ignore[safe-super]
        return result


def fits(cache: object) -> bool:
    """Whether a cache is one of `states_of_any_prompt`, but for its layers."""
    return type(cache) is DynamicCache and any(
        isinstance(item, LinearAttentionCacheLayerMixin) for item in cache.layers
    )


def states_of_any_prompt(config: PreTrainedConfig) -> DynamicCache:
    """The empty cache that a model of this configuration begins with."""
    cache = DynamicCache(config=config)
    for layer in cache.layers:
        kind = type(layer)
        if isinstance(layer, LinearAttentionCacheLayerMixin) and not isinstance(layer, _BehindZeros):
            layer.__class__ = type(kind.__name__, (_BehindZeros, kind), {})
    return cache
