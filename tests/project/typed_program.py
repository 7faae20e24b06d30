"""A user's program: every step of the public interface, with types."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import dims


class WaitingTime(dims.Likelihood):
    name = "users_waiting_time"

    def negative_log(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs + targets * (-outputs).exp()).sum(-1)

    def distribution(self, outputs: Tensor) -> torch.distributions.Distribution:
        return torch.distributions.Exponential((-outputs).exp())


def main() -> float:
    x, y = torch.randn(20, 3), torch.rand(20, 1)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    blocks: list[str] = dims.last_blocks(model, 1)
    posterior: dims.Posterior = dims.fit(model, (x, y), "regression", parameters=blocks, tune=True)
    noise: float | None = posterior.noise_std
    draws: dims.Draws = posterior.sample(
        3, dims.DiMS(friction=0.5, max_time=1.0, save_at=(0.5,)), progress=False
    )
    other = posterior.sample(3, "la", progress=False)
    earlier: dims.Draws = draws.at(0.5)
    predictive: dims.Predictive = draws.predict(x)
    mean: Tensor = predictive.mean
    low, high = predictive.interval(0.9)
    nll: float = predictive.metrics(y)["ensemble"]["nll"]
    module: nn.Module = draws.to_module(0)
    outputs = [each(x) for each in other.modules()]
    average, variance = draws.to_ensemble()(x)
    draws.save("run.safetensors")
    loaded = dims.load("run.safetensors", model, (x, y))
    surface = dims.LossSurface(model, (x, y), dims.StudentT(4.0, 0.1), prior_precision=1.0)
    value, gradient = surface.value_and_grad(surface.initial.unsqueeze(0))
    path = dims.integrate(
        dims.Surface(lambda theta: (theta.square().sum() - 1).square()),
        torch.ones(2),
        torch.zeros(2),
        dynamics=dims.dissipative(friction=0.1),
        max_time=1.0,
    )
    settled = dims.settle(posterior.surface, loaded.parameters, "stiff")
    ok: bool = all(status.ok for status in settled.status)
    times = dims.fit(model, (x, y), WaitingTime(), tune=False)
    print(noise, earlier, mean, low, high, module, outputs, average, variance, value, gradient)
    print(path.energy_violation, path.status[0] is dims.Status.FINISHED, ok, times.gradient_norm)
    return nll


if __name__ == "__main__":
    main()
