"""Your own module on your own tensors: twenty clients with two labels each come and go."""

import torch
from torch import nn

import fedparity as fp

torch.manual_seed(0)
y = torch.arange(2000) % 10
x = torch.randn(2000, 16) + 2 * torch.eye(10, 16)[y]  # ten clouds in sixteen dimensions
module = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 10))

task = fp.torch_task(module, x, y, clients=20, partition="labels:k=2", training=fp.Training(epochs=2, rate=0.1))
spec = fp.Spec(
    name="own_model",
    methods=["uniform", "parity"],
    rounds=10,
    cohort=5,
    population={"clients": 20, "availability": "bernoulli:low=.1,high=.9"},
)
run = fp.execute(spec, task=task)
print(run.table)
fp.write_report(run, "own_model.html")
