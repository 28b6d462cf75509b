"""The families of timm, each by the smallest of its models, with random weights and an image as small as it takes."""

from __future__ import annotations

import re
from typing import Any

ROWS, LARGE = 2, 15_000_000
SIZES = (32, 64, 96, 128, 160, 192, 224, 256, 384)
# Words by which timm's names tell the small ones, the smallest first.
_SMALL = (
    "test",
    "atto",
    "femto",
    "pico",
    "nano",
    "xxs",
    "xs",
    "xt",
    "tiny",
    "_t0",
    "s0",
    "_t",
    "small",
    "_s",
    "18",
    "b0",
    "050",
)
_TRIED = 8  # models of a family whose parameters are counted


class DoesNotRun(Exception):
    """The smallest model of a family does not run in eager."""


def families() -> list[str]:
    """The modules of timm that have models of their own."""
    import timm

    return sorted(timm.list_modules())


def ready(family: str) -> tuple[str, Any, tuple[Any, ...]]:
    """Name, model and inputs of the smallest model of a family.

    Raises:
        DoesNotRun: on no image size.
    """
    import timm
    import torch

    names = sorted(timm.list_models(module=family), key=_likely)[:_TRIED]
    if not names:
        raise DoesNotRun("has no models of its own")
    name = min(names, key=_parameters)
    # Where even the smallest is large, two of its blocks where the family counts them.
    shallow: tuple[dict[str, Any], ...] = ({"depth": 2},) if _parameters(name) > LARGE else ()
    reason: Exception | None = None
    for size in SIZES:
        for options in (*({"img_size": size, **item} for item in (*shallow, {})), *shallow, {}):
            torch.manual_seed(0)
            try:
                model = timm.create_model(name, pretrained=False, **options).eval()
                image = torch.randn(ROWS, model.default_cfg["input_size"][0], size, size)
                with torch.no_grad():
                    model(image)
            except Exception as error:
                reason = error
                continue
            return f"{name}, {size} x {size}", model, (image,)
    raise DoesNotRun(f"{name}: {type(reason).__name__}: {reason}")


def _likely(name: str) -> tuple[int, int, str]:
    """Small ones first."""
    place = next((i for i, word in enumerate(_SMALL) if re.search(rf"{word}(?![a-z])", name)), len(_SMALL))
    return place, len(name), name


def _parameters(name: str) -> float:
    import timm
    import torch

    try:
        with torch.device("meta"):
            return float(sum(p.numel() for p in timm.create_model(name, pretrained=False).parameters()))
    except Exception:  # asks for the numbers of its weights while it is built
        return float("inf")
