"""What a folder of transformers can't become is refused by name; nothing of it runs."""

import json
from pathlib import Path
from typing import Any

import pytest

import onnxport
from onnxport.errors import InvalidInputError, InvalidModelError, UnsupportedOperator, UntrustedFileError
from tests.huggingface.models import folder, live

pytestmark = pytest.mark.huggingface


def rewritten(place: str, **changed: Any) -> str:
    path = Path(place) / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    return place


OPTIONS = [
    ({"task": "texgeneration"}, "did you mean 'text-generation'"),
    ({"task": "image-classification"}, "transformers has no class of 'bert' models for it"),
    ({"dtype": "int7"}, "dtype='int7': one of 'float32', 'float16', 'bfloat16'"),
    ({"methods": ["predict"]}, "methods= means nothing for a Hugging Face folder"),
    ({"dynamic_shapes": {"input_ids": {0: "n"}}}, "dynamic_shapes= means nothing for a Hugging Face folder"),
    ({"allow_code": True}, "no code of a folder runs"),
    ({"inputs": (1,)}, "inputs= means nothing for a Hugging Face folder"),
    ({"task": "question-answering"}, r"no weights for qa_outputs.bias, qa_outputs.weight|no weights for qa_outputs"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=[" ".join(options) for options, _ in OPTIONS])
def test_options_that_do_not_fit(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidInputError, InvalidModelError), match=message):
        onnxport.convert(folder(tmp_path, "BertForMaskedLM"), **options)


def test_options_of_folders_mean_nothing_elsewhere() -> None:
    for option in ("task", "weights"):
        with pytest.raises(InvalidInputError, match=f"{option}= means nothing for a PyTorch module"):
            onnxport.convert(live("BertModel"), **{option: "float32"})


def test_a_folder_becomes_onnx_alone(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOperator, match="becomes a folder of ONNX models"):
        onnxport.convert(folder(tmp_path, "BertForMaskedLM"), to="keras")


def test_code_of_a_folder_does_not_run(tmp_path: Path) -> None:
    place = folder(tmp_path, "BertModel")
    (Path(place) / "own.py").write_text("raise SystemExit('it ran')")
    of_config = rewritten(place, model_type="own", auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    with pytest.raises(UntrustedFileError, match="does not run"):
        onnxport.convert(of_config)
    of_class = rewritten(place, model_type="bert", architectures=["OwnModel"], auto_map={"AutoModel": "own.Model"})
    with pytest.raises(UntrustedFileError, match="OwnModel stands in Python files"):
        onnxport.convert(of_class)


def test_a_pickle_of_more_than_tensors_is_not_loaded(tmp_path: Path) -> None:
    import torch

    place = Path(folder(tmp_path, "BertModel"))
    (place / "model.safetensors").unlink()
    torch.save({"model": torch.nn.Linear(2, 2)}, place / "pytorch_model.bin")
    with pytest.raises(UntrustedFileError, match="unpickling it would run code"):
        onnxport.convert(place)


FAULTS = [
    ({"architectures": ["NoSuchModel"]}, "has no class 'NoSuchModel'"),
    ({"model_type": "nothing"}, "knows no model_type 'nothing'"),
    ({"hidden_size": 32}, r"is \[\d+.*\] in the files, and \[.*\] in a BertModel"),
    ({"num_hidden_layers": 3}, "no weights for .*encoder.layer.2.* and 11 more of BertModel: they would be random"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, r"quantised weights \(gptq\)"),
]


@pytest.mark.parametrize(("changed", "message"), FAULTS, ids=[" ".join(changed) for changed, _ in FAULTS])
def test_configurations_that_do_not_fit_the_weights(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        onnxport.convert(rewritten(folder(tmp_path, "BertModel"), **changed))


def test_files_of_weights_that_are_damaged(tmp_path: Path) -> None:
    file = Path(folder(tmp_path, "BertModel")) / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(InvalidModelError, match="is truncated"):
        onnxport.convert(file.parent)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [7, 7]
    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
    with pytest.raises(InvalidModelError, match=rf"{name}' is \d+ bytes, not \[7, 7\]"):
        onnxport.convert(file.parent)
    file.unlink()
    index = file.parent / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    with pytest.raises(InvalidModelError, match="no file beside it"):
        onnxport.convert(file.parent)
    index.unlink()
    with pytest.raises(InvalidModelError, match="holds no weights"):
        onnxport.convert(file.parent)
