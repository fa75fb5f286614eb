# SPDX-License-Identifier: Apache-2.0
"""paddle_ps.torch - a PyTorch model whose parameters are on paddlectl's parameter servers.

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = paddle_ps.torch.Embedding(32, std=0.01)   # any 64-bit ids
            self.tower = torch.nn.Linear(32, 1)
        def forward(self, ids):
            return self.tower(self.words(ids).mean(1))

    with paddle_ps.join("optimizer=adagrad optimizer.learning_rate=0.05") as ps:
        model = Net()
        optimizer = paddle_ps.torch.Optimizer(model, ps)
        for ids, labels in data:                               # this trainer's part of each batch
            optimizer.zero_grad()
            loss = criterion(model(ids), labels)               # the mean of the samples' losses
            loss.backward()
            optimizer.step(len(ids), loss)
        ps.pass_end()
        ps.save("output", "model")

The servers sum the gradients of all trainers and apply the optimizer that join names. With update =
sync all trainers continue with the same values, which are those of one process that trains the
whole batches. Parameters are float32, on the CPU. Buffers (the running statistics of BatchNorm) stay
local to each trainer.
"""
from __future__ import annotations

import math
from typing import Callable, Mapping, Optional

import torch

from paddle_ps import Client, Error

Attributes = Mapping[str, float]


class Embedding(torch.nn.Module):
    """torch.nn.Embedding with its rows on the servers: ids of any shape -> that shape and one more
    axis of embedding_dim.

    num_embeddings 0: any 64-bit ids; a row is created when it is first used for training. attributes:
    those of paddle_ps.Client.table (std, lr, admit_count, ...). The table has the name of the module
    in the model. Without gradients (torch.no_grad) a missing row reads as its initial value."""

    def __init__(self, embedding_dim: int, num_embeddings: int = 0, **attributes: float) -> None:
        super().__init__()
        self.embedding_dim, self.num_embeddings, self.attributes = embedding_dim, num_embeddings, attributes
        self._client: Optional[Client] = None
        self._table = -1
        self._used: list[tuple[torch.Tensor, torch.Tensor]] = []  # (ids, rows) of this step

    def _declare(self, client: Client, name: str) -> None:
        self._client = client
        self._table = client.table(name, self.embedding_dim, self.num_embeddings, **self.attributes)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """The rows of `ids`, pulled from the servers. Waits for them."""
        if self._client is None:
            raise Error(-9, "an Embedding has no rows before Optimizer(model, client)")
        trains = torch.is_grad_enabled()
        rows = torch.from_numpy(self._client.pull_rows(self._table, ids.numpy(), create=trains))
        self._client.wait()
        if trains:
            self._used.append((ids, rows.requires_grad_()))
        return rows

    def _push(self, factor: float) -> None:
        used = [(ids.reshape(-1), rows.grad.reshape(-1, self.embedding_dim)) for ids, rows in self._used if rows.grad is not None]
        self._used.clear()
        if used and self._client is not None:
            ids, grads = (torch.cat(part) for part in zip(*used))
            self._client.push_rows(self._table, ids.numpy(), (grads * factor).numpy())

    def extra_repr(self) -> str:
        """The text in print(model)."""
        return "%d" % self.embedding_dim


def default_attributes(name: str, parameter: torch.nn.Parameter) -> Attributes:
    """The first values of a parameter, unless Optimizer gets others.

    A parameter whose values are all equal keeps them: the zeros of a bias, the ones of a LayerNorm, a
    scalar. The trainers would draw different random values, so the servers draw them: a weight of two
    dimensions or more has normal values with the standard deviation of torch.nn.Linear and Conv2d.
    Other vectors, such as the bias of a Linear, begin with zeros."""
    first = float(parameter.detach().reshape(-1)[0])
    is_bias = name.split(".")[-1].startswith("bias")
    # A single value is equal to itself, also if PyTorch has drawn it.
    may_be_drawn = parameter.numel() == 1 and first != 0 and (parameter.dim() > 1 or (parameter.dim() == 1 and is_bias))
    if not may_be_drawn and bool((parameter == first).all()):
        return {"mean": first, "std": 0.0}
    if parameter.dim() < 2:
        return {"std": 0.0}
    return {"std": 1 / math.sqrt(3 * (parameter.numel() // parameter.shape[0]))}


class Optimizer:
    """Puts the parameters of `model` on the servers, and trains them there. It declares each
    parameter that requires a gradient, and the table of each Embedding, starts the client, and gives
    the model the servers' values.

    attributes(name, parameter): those of paddle_ps.Client.dense: mean, std, lr, l1, l2.
    mean=True: the loss is the mean over this trainer's samples; False: their sum."""

    def __init__(self, model: torch.nn.Module, client: Client,
                 attributes: Callable[[str, torch.nn.Parameter], Attributes] = default_attributes, mean: bool = True) -> None:
        self.client, self._mean = client, mean
        self._dense: list[tuple[int, torch.nn.Parameter]] = []
        self._embeddings: list[Embedding] = []
        for name, module in model.named_modules():
            if isinstance(module, Embedding):
                module._declare(client, name or "embedding")
                self._embeddings.append(module)
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.dtype != torch.float32 or parameter.device.type != "cpu" or not parameter.is_contiguous() or not parameter.numel():
                raise Error(-9, "parameter %s is not a contiguous float32 tensor on the CPU" % name)
            shape = tuple(parameter.shape) if 0 < parameter.dim() <= 4 else (parameter.numel(),)
            self._dense.append((client.dense(name, shape, **attributes(name, parameter)), parameter))
        client.start()
        self._pull()

    def _pull(self) -> None:
        for i, parameter in self._dense:
            shape = self.client.shape(i)
            self.client.pull_dense(i, parameter.detach().numpy().reshape(shape))
        self.client.wait()

    def zero_grad(self) -> None:
        """Forgets the gradients, and the rows that were read since the last step."""
        for _, parameter in self._dense:
            parameter.grad = None
        for embedding in self._embeddings:
            embedding._used.clear()

    def step(self, n_samples: int, loss: Optional[torch.Tensor] = None) -> None:
        """Pushes the gradients of n_samples samples, ends the step, and waits for the new values. With
        `loss`, the sum of the samples' losses is a number of Client.step_sums(1)."""
        factor = float(n_samples) if self._mean else 1.0
        for i, parameter in self._dense:
            if parameter.grad is not None:
                self.client.push_dense(i, (parameter.grad * factor).reshape(self.client.shape(i)).numpy())
        for embedding in self._embeddings:
            embedding._push(factor)
        self.client.step_end(n_samples, [] if loss is None else [float(loss.detach()) * factor])
        self._pull()
