"""Folders of models that write about pictures: three files, put together by whoever runs them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from onnxport.tracing.huggingface import modalities
from onnxport.validation.decoding import Prompt, WithMarks, decoded
from tests.huggingface.models import folder, torch, transformers

pytestmark = pytest.mark.huggingface

MARK = 5
FILES = ["vision_encoder", "embed_tokens", "decoder_model_merged"]
KINDS = ["LlavaForConditionalGeneration", "Qwen2VLForConditionalGeneration", "SmolVLMForConditionalGeneration"]


@pytest.mark.parametrize("name", KINDS)
def test_three_files_write_what_generate_writes(tmp_path: Path, name: str) -> None:
    done = onnxport.convert(folder(tmp_path, name))
    assert done.report.verdict == "passed", done.report
    assert list(done.parts) == FILES
    assert ("image_grid_thw=[[1, 8, 12]]" in " ".join(done.notes)) == name.startswith("Qwen2VL")
    assert [item.name for item in done.report.sets][-2:] == [
        "greedy decoding with a picture, batch 1",
        "greedy decoding with pictures, batch 3",
    ]


def _tokens(done: Any, picture: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    features = done.parts["vision_encoder"](pixel_values=picture)
    decoder = WithMarks(done.parts["embed_tokens"], done.parts["decoder_model_merged"], features, MARK, None)
    return decoded(decoder, None, Prompt(prompt, np.ones_like(prompt)), 8)


def test_the_picture_decides_what_is_written(tmp_path: Path) -> None:
    """On a picture and a prompt that the proof has not tried, beside a weight that makes pictures count."""
    source = folder(tmp_path, "LlavaForConditionalGeneration")
    model = transformers.LlavaForConditionalGeneration.from_pretrained(source)
    with torch.no_grad():
        model.get_parameter("model.multi_modal_projector.linear_2.weight").mul_(200.0)
    model.save_pretrained(source)
    done = onnxport.convert(source)
    drawn = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    prompt = torch.tensor([[9, *[MARK] * 4, 11, 12, 13]])
    written = []
    for picture in drawn.split(1):
        expected = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            pixel_values=picture,
            max_new_tokens=8,
            do_sample=False,
            eos_token_id=None,
        )
        written.append(_tokens(done, picture.numpy(), prompt.numpy()).tolist())
        assert written[-1] == expected[:, prompt.shape[1] :].tolist()
    assert written[0] != written[1]


def test_what_a_decoder_takes_of_a_picture_beside_its_marks_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    """Qwen3-VL adds what it sees to inner layers too: told by what its vision gives, and by what its text's model takes."""
    source = folder(tmp_path, "Qwen3VLForConditionalGeneration")
    with pytest.raises(InvalidInputError, match="deepstack_features"):
        onnxport.convert(source, validate=False)
    monkeypatch.setattr(modalities, "_INNER", modalities._INNER | {"deepstack_features"})
    with pytest.raises(InvalidInputError, match="deepstack_visual_embeds, visual_pos_masks"):
        onnxport.convert(source, validate=False)


def test_one_file_of_a_model_that_takes_grids_is_refused_with_the_way_out(tmp_path: Path) -> None:
    source = folder(tmp_path, "Qwen2VLForConditionalGeneration")
    with pytest.raises(InvalidInputError, match="--task image-text-to-text-with-past"):
        onnxport.convert(source, task="image-text-to-text")
    with pytest.raises(InvalidInputError, match="is for image-text-to-text"):
        onnxport.convert(source, task="text-generation")
