"""What a model of a folder is for, and which class of transformers it is; both from transformers' own tables."""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import Any

import transformers
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto

from onnxport.errors import InvalidInputError, InvalidModelError, UntrustedFileError

WITH_PAST = "-with-past"
PICTURED = "image-text-to-text"
PAIRED = "zero-shot-image-classification"  # each picture with each text, of which there may be more or fewer
# The tables of transformers that hold the classes for a task, the first in which a class stands decides what it is for.
_TABLES = {
    PICTURED: ("IMAGE_TEXT_TO_TEXT",),
    "text-generation": ("CAUSAL_LM",),
    "text2text-generation": ("SEQ_TO_SEQ_CAUSAL_LM",),
    "automatic-speech-recognition": ("SPEECH_SEQ_2_SEQ", "CTC"),
    "fill-mask": ("MASKED_LM",),
    "text-classification": ("SEQUENCE_CLASSIFICATION",),
    "token-classification": ("TOKEN_CLASSIFICATION",),
    "question-answering": ("QUESTION_ANSWERING",),
    "image-classification": ("IMAGE_CLASSIFICATION",),
    "object-detection": ("OBJECT_DETECTION",),
    "image-segmentation": (
        "IMAGE_SEGMENTATION",
        "SEMANTIC_SEGMENTATION",
        "UNIVERSAL_SEGMENTATION",
        "INSTANCE_SEGMENTATION",
    ),
    "depth-estimation": ("DEPTH_ESTIMATION",),
    "audio-classification": ("AUDIO_CLASSIFICATION",),
    PAIRED: ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
}
_FEATURES = "feature-extraction"
# Tasks whose models write a sequence token by token, and can keep a cache of what they have read.
_GENERATING = frozenset({"text-generation", "text2text-generation", "automatic-speech-recognition", PICTURED})
_SYNONYMS = {
    "causal-lm": "text-generation",
    "default": _FEATURES,
    "masked-lm": "fill-mask",
    "semantic-segmentation": "image-segmentation",
    "seq2seq": "text2text-generation",
    "seq2seq-lm": "text2text-generation",
    "sequence-classification": "text-classification",
    "speech-recognition": "automatic-speech-recognition",
}
TASKS = tuple(sorted([*_TABLES, _FEATURES, *(f"{name}{WITH_PAST}" for name in _GENERATING)]))


@dataclass(frozen=True)
class Task:
    """What a model is converted for."""

    name: str  # without the ending that asks for a cache
    past: bool  # a cache comes in and goes out

    @property
    def full_name(self) -> str:
        """The name as it is given on the command line."""
        return f"{self.name}{WITH_PAST}" if self.past else self.name


def checked(task: str | None) -> None:
    """Refuses a task that is none.

    Raises:
        InvalidInputError: there is no such task.
    """
    if task is not None:
        _parsed(task)


def task_and_class(config: PreTrainedConfig, task: str | None) -> tuple[Task, type[PreTrainedModel]]:
    """The task, by default that of the class which the configuration names, and the class to build.

    Raises:
        InvalidInputError: there is no such task, or transformers has no class of the model's type for it.
        InvalidModelError: the configuration names no class that transformers has.
        UntrustedFileError: the class stands in Python files of the folder.
    """
    named = (getattr(config, "architectures", None) or [None])[0]
    if task is None:
        kind = _class_of(config, named)
        name = next((item for item in _TABLES if kind.__name__ in _classes(item)), _FEATURES)
        return Task(name, name in _GENERATING and _keeps_past(kind, config, name)), kind
    wanted = _parsed(task)
    if wanted.name != _FEATURES and named in _classes(wanted.name):
        return wanted, _class_of(config, named)
    table = _MODELS if wanted.name == _FEATURES else _merged(wanted.name)
    choice = table.get(config.model_type)
    if choice is None:
        own = next((item for item in _TABLES if named in _classes(item)), None)
        hint = "" if own is None else f"; {named} is for {own}"
        raise InvalidInputError(
            f"task={task!r}: transformers has no class of {config.model_type!r} models for it{hint}"
        )
    return wanted, _class_of(config, choice if isinstance(choice, str) else choice[0])


def mark_of(config: PreTrainedConfig) -> int | None:
    """The token in whose places a picture stands."""
    marks = (getattr(config, name, None) for name in ("image_token_id", "image_token_index"))
    return next((mark for mark in marks if isinstance(mark, int)), None)


def holds(kind: type[PreTrainedModel], name: str) -> bool:
    """Whether a class is one for a task."""
    return kind.__name__ in _classes(name)


def _parsed(task: str) -> Task:
    past = task.endswith(WITH_PAST)
    name = task.removesuffix(WITH_PAST)
    name = _SYNONYMS.get(name, name)
    full = f"{name}{WITH_PAST}" if past else name
    if full not in TASKS:
        near = difflib.get_close_matches(full, TASKS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise InvalidInputError(f"task={task!r}: one of {', '.join(TASKS)}{hint}")
    return Task(name, past)


def _keeps_past(kind: type[PreTrainedModel], config: PreTrainedConfig, name: str) -> bool:
    """Whether a model is usually wanted with a cache: one that generates, and takes pictures apart from its tokens if any."""
    alone = name != PICTURED or bool(config.is_encoder_decoder) or takes_pictures_apart(kind)
    return bool(kind.can_generate()) and alone


def takes_pictures_apart(kind: type[PreTrainedModel]) -> bool:
    """Whether a class computes what it sees apart from the rest, and the rest goes by the order of tokens alone."""
    names = inspect.signature(kind.forward).parameters
    return hasattr(kind, "get_image_features") and "inputs_embeds" in names and "token_type_ids" not in names


def _class_of(config: PreTrainedConfig, name: str | None) -> type[PreTrainedModel]:
    if name is None:
        raise InvalidModelError(
            "config.json names no class in 'architectures': give a task, --task text-generation for one"
        )
    kind = getattr(transformers, name, None)
    if isinstance(kind, type) and issubclass(kind, PreTrainedModel):
        return kind
    if getattr(config, "auto_map", None):
        raise UntrustedFileError(
            f"{name} stands in Python files of the folder, which onnxport does not run: build the model yourself and pass it "
            "to onnxport.convert"
        )
    raise InvalidModelError(f"transformers {transformers.__version__} has no class {name!r}")


def _merged(name: str) -> dict[str, Any]:
    tables = [getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {}) for table in _TABLES[name]]
    return {kind: item for table in reversed(tables) for kind, item in table.items()}


_MODELS: dict[str, Any] = dict(modeling_auto.MODEL_MAPPING_NAMES)


def _classes(name: str) -> set[str]:
    tables = [getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES", {}) for table in _TABLES[name]]
    items = [item for table in tables for item in table.values()]
    return {kind for item in items for kind in ((item,) if isinstance(item, str) else item)}
