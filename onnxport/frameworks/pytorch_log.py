"""What torch logs and prints about an attempt that fails, kept back: the error that it raises says the same."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from onnxport.frameworks.streams import kept_back


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps torch from logging, and from printing the graph of an attempt that fails; what other threads log passes."""
    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    loggers = [logger for name, logger in logging.root.manager.loggerDict.items() if name.partition(".")[0] == "torch"]
    handlers = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    for handler in handlers:
        handler.addFilter(others)
    try:
        with kept_back("stdout"), kept_back("stderr"):
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(others)


def graphs_kept_back(call: object) -> AbstractContextManager[None]:
    """Keeps a `torch.fx.GraphModule` from printing its source where a call fails; what users' own code writes passes."""
    return kept_back("stderr") if isinstance(call, torch.fx.GraphModule) else nullcontext()
