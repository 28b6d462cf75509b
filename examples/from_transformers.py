import numpy as np
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import onnxport

sizes = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
config = LlamaConfig(**sizes, pad_token_id=0, eos_token_id=None)
net, prompt, past = LlamaForCausalLM(config).eval(), torch.randint(3, 100, (2, 5)), DynamicCache(config=config)
net(prompt, past_key_values=past)  # an example of a filled cache; the names of its tensors: past_key_values.0.key, ...

step = {"input_ids": prompt[:, :3], "attention_mask": torch.ones(2, 8, dtype=torch.int64), "past_key_values": past}
shapes = {
    "input_ids": {0: "batch", 1: "new"},
    "attention_mask": {0: "batch", 1: "total"},
    "past_key_values": {0: "batch", 2: "past"},  # of every tensor in it
}
decoder = onnxport.convert(net, inputs=step, dynamic_shapes=shapes)

tokens = prompt.numpy()
new, cache = tokens, {name: np.zeros((2, 4, 0, 8), np.float32) for name in decoder.input_names[2:]}
for _ in range(6):
    mask = np.ones(tokens.shape, np.int64)
    results = dict(zip(decoder.output_names, decoder(input_ids=new, attention_mask=mask, **cache), strict=True))
    cache = {name: results[name.replace("past_key_values", "present")] for name in cache}
    new = results["logits"][:, -1].argmax(-1)[:, None]
    tokens = np.concatenate([tokens, new], axis=1)
expected = net.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
assert tokens.tolist() == expected.tolist()
