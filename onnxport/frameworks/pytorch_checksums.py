"""Checksums of weights: whether two state dicts hold the same numbers, in whatever precision and place."""

from __future__ import annotations

import hashlib

import torch


def checksum(content: torch.Tensor) -> str:
    """SHA-256 of a real tensor's numbers in float64, in order, as hexadecimal digits.

    >>> ones = checksum(torch.ones(2))
    >>> ones == checksum(torch.ones(2, dtype=torch.float16)), ones == checksum(torch.zeros(2))
    (True, False)
    """
    return hashlib.sha256(content.detach().to("cpu", torch.float64).contiguous().numpy().tobytes()).hexdigest()
