#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# paddle_ps.torch next to the same model in plain PyTorch: what its layers, its ids and its options do to the numbers; its errors. The
# example with two trainers is in client_library.sh.
# release only (a sanitizer's runtime can't come with a library into somebody's Python)
. "$(dirname "$0")/../../support/lib.sh"
/usr/bin/python3 -c 'import numpy, torch' 2>/dev/null || skip "/usr/bin/python3 has no torch"
cd "$TMP" || exit 1
cp -R "$TOP/src/capi/python/paddle_ps" . && cp "$BIN/libpaddle_ps.so.1" paddle_ps/ || die "no client library in $BIN"
cat >compare.py <<'END'
import torch
import paddle_ps
import paddle_ps.torch as on_servers

SETTINGS = "optimizer=sgd optimizer.learning_rate=0.02 seed=3 local=1"


class Net(torch.nn.Module):
    """A scalar, a tied and a frozen parameter, one of five dimensions, one that is not always used, and two reads of one table."""

    def __init__(self):
        super().__init__()
        self.words = on_servers.Embedding(6, std=0.3)
        self.first = torch.nn.Linear(6, 6)
        self.tied = torch.nn.Linear(6, 6)
        self.tied.weight = self.first.weight
        self.norm = torch.nn.LayerNorm(6)
        self.volume = torch.nn.Conv3d(1, 2, (1, 1, 3))
        self.frozen = torch.nn.Parameter(torch.full((6,), 2.0), requires_grad=False)
        self.scale = torch.nn.Parameter(torch.tensor(1.3))
        self.slope = torch.nn.PReLU()
        self.spare = torch.nn.Linear(6, 1)

    def forward(self, ids, odd):
        x = self.norm(self.tied(torch.tanh(self.first(self.words(ids).mean(1))))) * self.frozen
        x = x + self.words(ids[:, :1]).sum(1)
        y = self.volume(x.reshape(-1, 1, 1, 1, 6)).flatten(1).mean(1) * self.scale
        y = self.slope(y)
        return y + self.spare(x).squeeze(1) if odd else y


def samples(step, n=12):
    g = torch.Generator().manual_seed(step)
    ids = torch.randint(0, 40, (n, 3), generator=g)
    ids[0] = ids[0, 0]  # one id three times
    return ids, torch.randn(n, generator=g)


def same(a, b, what):
    assert torch.allclose(a, b, rtol=2e-5, atol=2e-6), (what, (a - b).abs().max())


def compare(mean):
    loss_of = torch.nn.MSELoss(reduction="mean" if mean else "sum")
    with paddle_ps.join(SETTINGS) as ps:
        model = Net()
        optimizer = on_servers.Optimizer(model, ps, mean=mean)
        assert model.norm.weight.eq(1).all() and model.norm.bias.eq(0).all() and model.first.bias.eq(0).all()
        assert model.scale.item() == torch.tensor(1.3).item() and model.slope.weight.item() == 0.25 and model.spare.bias.item() == 0
        assert 0.1 < model.first.weight.std() * 18 ** 0.5 < 3
        with torch.no_grad():
            rows = model.words(torch.arange(40))
        plain = Net()
        plain.words = torch.nn.Embedding.from_pretrained(rows.clone(), freeze=False)
        plain.load_state_dict({**model.state_dict(), "words.weight": rows})
        reference = torch.optim.SGD([p for p in plain.parameters() if p.requires_grad], lr=0.02)
        for step in range(12):
            ids, want = samples(step)
            scale = 1 if mean else 1 / len(ids)  # the servers divide by the samples
            optimizer.zero_grad()
            model(ids, step % 2)  # a read that zero_grad forgets
            optimizer.zero_grad()
            loss = loss_of(model(ids, step % 2), want)
            loss.backward()
            optimizer.step(len(ids), loss)
            reference.zero_grad()
            expected = loss_of(plain(ids, step % 2), want)
            same(loss.detach(), expected.detach(), ("loss", step))
            (expected * scale).backward()
            reference.step()
            [(number, n, sums)] = ps.step_sums(1)
            assert (number, n) == (step, len(ids)) and abs(sums[0] - float(loss) * (len(ids) if mean else 1)) < 1e-3
        for (name, a), (_, b) in zip(model.named_parameters(), [p for p in plain.named_parameters() if p[0] != "words.weight"]):
            same(a.detach(), b.detach(), name)
        with torch.no_grad():
            same(model.words(torch.arange(40)), plain.words.weight.detach(), "rows")
        assert model.frozen.eq(2).all()


def refused(text, f):
    try:
        f()
    except paddle_ps.Error as e:
        assert text in str(e), e
    else:
        raise AssertionError("no error: " + text)


compare(True)
compare(False)
refused("has no rows before Optimizer", lambda: on_servers.Embedding(3)(torch.arange(3)))
ps = paddle_ps.join(SETTINGS)
refused("weight is not a contiguous float32", lambda: on_servers.Optimizer(torch.nn.Linear(2, 2).double(), ps))
ps.close()
with paddle_ps.join(SETTINGS) as ps:  # attributes of one's own; a model that is only an Embedding
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Flatten())
    on_servers.Optimizer(model, ps, attributes=lambda name, p: {"mean": 5.0 if name == "0.bias" else -1.0})
    assert model[0].bias.eq(5).all() and model[0].weight.eq(-1).all()
refused("has left the job", lambda: ps.step)
ps = paddle_ps.join(SETTINGS)
model = on_servers.Embedding(4, num_embeddings=10, mean=2.0)
on_servers.Optimizer(model, ps)
assert model(torch.tensor([[1, 2], [9, 0]])).eq(2).all()
refused("id 10 of table 0, which was declared with 10 rows", lambda: model(torch.tensor([10])))
ps.close()
print("the same numbers")
END
/usr/bin/python3 compare.py || die "compare.py"
