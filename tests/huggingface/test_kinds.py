"""Folders of models whose inputs or weights are of a kind of their own: no option is needed for any of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from tests.huggingface.models import folder, torch, transformers

pytestmark = pytest.mark.huggingface


def test_weights_that_a_model_computes_are_missing_in_its_files(tmp_path: Path) -> None:
    """Marian's tables of sines are not saved; what would be random stays refused (test_refusals)."""
    source = folder(tmp_path, "MarianMTModel")
    with (Path(source) / "model.safetensors").open("rb") as file:
        assert b"embed_positions" not in file.read()
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    table = transformers.MarianMTModel.from_pretrained(source).get_encoder().embed_positions.weight.detach()
    weights = done["encoder_model"].model.graph.initializers
    name = next(item for item in weights if item.endswith("embed_positions.weight"))
    np.testing.assert_array_equal(weights[name].const_value.numpy(), table.numpy())


def test_pictures_and_texts_come_in_different_numbers(tmp_path: Path) -> None:
    source = folder(tmp_path, "CLIPModel")
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    model = transformers.CLIPModel.from_pretrained(source)
    draws = torch.Generator().manual_seed(0)
    for texts, pictures in ((1, 4), (5, 1), (3, 3)):
        given: dict[str, Any] = {
            "input_ids": torch.randint(3, 60, (texts, 6), generator=draws),
            "pixel_values": torch.randn(pictures, 3, 16, 16, generator=draws),
            "attention_mask": torch.ones(texts, 6, dtype=torch.int64),
        }
        with torch.no_grad():
            expected = model(**given).logits_per_image.numpy()
        results = done(**{name: item.numpy() for name, item in given.items()})
        np.testing.assert_allclose(results[done.output_names.index("logits_per_image")], expected, atol=1e-5)


def test_a_classifier_that_reads_up_to_a_mark(tmp_path: Path) -> None:
    done = onnxport.convert(folder(tmp_path, "BartForSequenceClassification"))
    assert done.report.verdict == "passed", done.report


def test_pictures_among_tokens(tmp_path: Path) -> None:
    """The prompt has as many marks as the model puts numbers of the picture in their places."""
    done = onnxport.convert(folder(tmp_path, "LlavaForConditionalGeneration"))
    assert done.report.verdict == "passed", done.report
    assert "the trace needs a fixed batch_size" in done.notes


def test_without_a_cache_that_it_takes_a_model_is_converted_without_one(tmp_path: Path) -> None:
    source = folder(tmp_path, "RwkvForCausalLM")
    done = onnxport.convert(source)
    assert done.report.verdict == "passed", done.report
    assert done.notes[0].startswith("RwkvForCausalLM for text-generation,")
    assert "the trace needs a fixed sequence_length" in done.notes
    with pytest.raises(InvalidInputError, match="gives no cache that it takes"):
        onnxport.convert(source, task="text-generation-with-past")


def test_a_configuration_with_which_its_model_does_not_run(tmp_path: Path) -> None:
    """A matrix product of torch takes rows of 16 bytes alone."""
    with pytest.raises(InvalidInputError, match="MixtralForCausalLM of this configuration does not run .*16 bytes"):
        onnxport.convert(folder(tmp_path, "MixtralForCausalLM", intermediate_size=37))
