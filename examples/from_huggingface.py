import numpy as np
import onnxruntime
import torch
from transformers import LlamaConfig, LlamaForCausalLM, logging

import onnxport

torch.manual_seed(0)
logging.disable_progress_bar()
sizes = {"vocab_size": 100, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
net = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, pad_token_id=0, eos_token_id=None)).eval()
net.save_pretrained("llama")  # or any folder of yours: config.json and safetensors

onnxport.convert("llama", output="llama_onnx")  # onnxport convert llama -o llama_onnx/

session = onnxruntime.InferenceSession("llama_onnx/model.onnx")
names = [item.name for item in session.get_inputs() if item.name.startswith("past_key_values")]
outputs = [item.name for item in session.get_outputs()]
tokens = new = np.array([[0, 0, 11, 12, 13], [21, 22, 23, 24, 25]])  # padded at the left
mask = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
cache = {name: np.zeros((2, 4, 0, 8), np.float32) for name in names}  # rows, heads, no tokens yet, size of a head
for _ in range(8):
    places = np.maximum(mask.cumsum(1) - 1, 0)[:, -new.shape[1] :]
    feeds = {"input_ids": new, "attention_mask": mask, "position_ids": places, **cache}
    results = dict(zip(outputs, session.run(None, feeds), strict=True))
    new = results["logits"][:, -1].argmax(-1)[:, None]
    tokens, mask = np.append(tokens, new, axis=1), np.append(mask, np.ones_like(new), axis=1)
    cache = {name: results[name.replace("past_key_values", "present")] for name in names}
prompt, kept = torch.tensor(tokens[:, :5]), torch.tensor(mask[:, :5])
expected = net.generate(prompt, attention_mask=kept, max_new_tokens=8, do_sample=False)
assert tokens.tolist() == expected.tolist()
