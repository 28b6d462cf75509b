import torch

import onnxport


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.GRU(16, 32, batch_first=True)
        self.head = torch.nn.Linear(32, 5)

    def forward(self, steps):
        states, _ = self.body(steps)
        return self.head(states[:, -1])


net, steps = Classifier().eval(), torch.randn(2, 7, 16)
shapes = {"steps": {0: "batch", 1: "time"}}
model = onnxport.convert(net, inputs=(steps,), dynamic_shapes=shapes, output_names=["scores"])
print(model.report)

again = onnxport.convert(model, to="pytorch")
assert set(again.state_dict()) == set(net.state_dict())
torch.testing.assert_close(again(steps), net(steps))
