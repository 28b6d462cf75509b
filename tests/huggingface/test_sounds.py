"""Folders of models that write about sounds: three files, as those of pictures are."""

from pathlib import Path

import numpy as np
import pytest

import onnxport
from onnxport.errors import InvalidInputError
from onnxport.validation.decoding import Prompt, WithMarks, decoded
from tests.huggingface.models import folder, live, torch, transformers

pytestmark = pytest.mark.huggingface

MARK = 5
FILES = ["audio_encoder", "embed_tokens", "decoder_model_merged"]
WHOLE = "sounds of input_features_mask=1 throughout alone"


# Which dimensions of a sound vary. The Python of Qwen3-ASR goes by the numbers of the mask.
VARY = {
    "Voxtral": ["batch_size", 8, 32],
    "GlmAsr": ["batch_size", 8, "frames"],
    "GraniteSpeech": ["batch_size", "frames", 8],
    "Qwen3ASR": [1, 8, 100],
}


@pytest.mark.parametrize("name", VARY)
def test_three_files_write_what_generate_writes(tmp_path: Path, name: str) -> None:
    done = onnxport.convert(folder(tmp_path, f"{name}ForConditionalGeneration"))
    assert done.report.verdict == "passed", done.report
    assert list(done.parts) == FILES
    assert (WHOLE in " ".join(done.notes)) == (name == "Qwen3ASR")
    shape = done.parts["audio_encoder"].model.graph.inputs[0].shape
    assert [size if isinstance(size, int) else size.value for size in shape] == VARY[name]
    assert [item.name for item in done.report.sets][-2:] == [
        "greedy decoding with a sound, batch 1",
        "greedy decoding with sounds, batch 3",
    ]


def test_a_sound_of_another_length_that_ends_early_decides_what_is_written(tmp_path: Path) -> None:
    """On sounds and a prompt that the proof has not tried, beside weights that make sounds count."""
    source = folder(tmp_path, "GlmAsrForConditionalGeneration")
    model = transformers.GlmAsrForConditionalGeneration.from_pretrained(source).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(30.0 if name.endswith(("linear_2.weight", "o_proj.weight", "v_proj.weight")) else 1.0)
    model.save_pretrained(source)
    done = onnxport.convert(source, validate=False)
    written = []
    for sound in torch.randn(2, 1, 8, 48, generator=torch.Generator().manual_seed(3)):
        given = {"input_features": sound, "input_features_mask": (torch.arange(48) < 40).long()[None]}
        with torch.no_grad():
            count = len(model.get_audio_features(**given).pooler_output)
        prompt = torch.tensor([[9, *[MARK] * count, 11, 12]])
        expected = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            **given,
            max_new_tokens=8,
            do_sample=False,
            eos_token_id=None,
        )
        heard = done.parts["audio_encoder"](**{name: item.numpy() for name, item in given.items()})
        decoder = WithMarks(done.parts["embed_tokens"], done.parts["decoder_model_merged"], heard, MARK, None)
        tokens = decoded(decoder, None, Prompt(prompt.numpy(), np.ones(prompt.shape, np.int64)), 8)
        assert tokens.tolist() == expected[:, prompt.shape[1] :].tolist()
        written.append(tokens.tolist())
    assert written[0] != written[1]


def test_text_without_its_sounds_is_written_only_when_asked_for(tmp_path: Path) -> None:
    source = folder(tmp_path, "Qwen2AudioForConditionalGeneration")
    with pytest.raises(InvalidInputError, match="takes sounds .* --task text2text-generation-with-past; else"):
        onnxport.convert(source)
    done = onnxport.convert(source, task="text2text-generation-with-past")
    assert done.report.verdict == "passed"
    assert "input_features" not in done.parts["model"].input_names


def test_bins_are_those_of_the_encoder(tmp_path: Path) -> None:
    done = onnxport.convert(folder(tmp_path, "ParakeetForCTC"), validate=False)
    sound = np.random.default_rng(0).standard_normal((3, 72, 16), dtype=np.float32)
    with torch.no_grad():
        expected = live("ParakeetForCTC")(input_features=torch.from_numpy(sound)).logits.numpy()
    written = done.parts["model"](input_features=sound)
    np.testing.assert_allclose(written if isinstance(written, np.ndarray) else written[0], expected, atol=1e-5)
