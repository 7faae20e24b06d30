"""Sample minima of any function: a sphere, and a deep linear network with two weights.

Particles start at one minimum, leave it, and come to rest on others. Both sets of minima have a
closed form, so the program can measure how far each particle is from them. It writes an animation.

    python examples/any_function.py            # half a minute; runs/examples/any_function.gif
    python examples/any_function.py --quick    # a few seconds, with fewer particles and frames
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import dims
from dims.commands.pages.style import COLOURS, figure_style


def sphere(theta: Tensor) -> Tensor:
    """(‖θ‖² − 1)²: the minima are the unit sphere."""
    return (theta.square().sum() - 1).square()


def deep_linear(theta: Tensor) -> Tensor:
    """½(θ₂θ₁ − 1)², the loss of x ↦ θ₂θ₁x on the point (1, 1): the minima are a hyperbola."""
    return 0.5 * (theta[0] * theta[1] - 1).square()


def travel(
    function: Any, start: list[float], speed: float, count: int, frames: int
) -> dims.Trajectories:
    """Move `count` particles from one start and save their positions at `frames` times.

    The times are spaced quadratically, because the motion is fastest at the beginning.
    """
    position = torch.tensor(start, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    velocity = speed * torch.randn(count, len(start), generator=generator, dtype=torch.float64)
    return dims.integrate(
        dims.Surface(function),
        position,
        velocity,
        dynamics=dims.dissipative(gravity=1.0, friction=0.5),
        max_time=40.0,
        save_at=40.0 * torch.linspace(0, 1, frames).double().square(),
    )


def animate(ball: dims.Trajectories, valley: dims.Trajectories, path: Path) -> None:
    """Write a GIF of both sets of particles, and its last frame as a PNG."""
    from matplotlib.animation import FuncAnimation, PillowWriter

    with figure_style() as plt:
        figure = plt.figure(figsize=(8, 4), dpi=70)
        left = figure.add_subplot(1, 2, 1, projection="3d")
        right = figure.add_subplot(1, 2, 2)
        _draw_sphere(left)
        _draw_valley(right)
        dots = left.plot([], [], [], "o", color=COLOURS["dims"], markersize=4)[0]
        trails = [
            left.plot([], [], [], color=COLOURS["dims"], alpha=0.5, lw=0.8)[0]
            for _ in ball.positions[0]
        ]
        dots_2d = right.plot([], [], "o", color="white", markersize=5, markeredgecolor="black")[0]
        trails_2d = [right.plot([], [], color="white", lw=0.8)[0] for _ in valley.positions[0]]

        def show(frame: int) -> None:
            past = slice(max(0, frame - 12), frame + 1)
            dots.set_data_3d(*ball.positions[frame].T)
            for row, trail in enumerate(trails):
                trail.set_data_3d(*ball.positions[past, row].T)
            dots_2d.set_data(*valley.positions[frame].T)
            for row, trail in enumerate(trails_2d):
                trail.set_data(*valley.positions[past, row].T)
            left.view_init(elev=20, azim=30 + frame)
            figure.suptitle(f"t = {float(ball.times[frame]):.1f}")

        film = FuncAnimation(figure, show, frames=len(ball.times))
        film.save(path, writer=PillowWriter(fps=15))
        figure.savefig(path.with_suffix(".png"))  # the last frame
        plt.close(figure)


def _draw_sphere(axis: Any) -> None:
    polar, turn = torch.meshgrid(
        torch.linspace(0, torch.pi, 13), torch.linspace(0, 2 * torch.pi, 25), indexing="ij"
    )
    x, y, z = polar.sin() * turn.cos(), polar.sin() * turn.sin(), polar.cos()
    axis.plot_wireframe(x.numpy(), y.numpy(), z.numpy(), color="0.8", linewidth=0.5)
    axis.set(title="(‖θ‖² − 1)²", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), zlim=(-1.3, 1.3))
    axis.set_box_aspect((1, 1, 1), zoom=1.4)
    axis.set_axis_off()


def _draw_valley(axis: Any) -> None:
    x, y = torch.meshgrid(torch.linspace(-3, 3, 150), torch.linspace(-3, 3, 150), indexing="xy")
    loss = 0.5 * (x * y - 1).square()
    axis.contourf(x, y, (loss + 0.01).log10(), levels=20, cmap="cividis")
    branch = torch.linspace(1 / 3, 3, 100)
    for sign in (1, -1):
        axis.plot(sign * branch, sign / branch, color=COLOURS["rla"], linestyle="--")
    axis.set(title="½(θ₂θ₁ − 1)², minima dashed", xlabel="θ₁", ylabel="θ₂", aspect="equal")
    axis.set(xlim=(-3, 3), ylim=(-3, 3))
    axis.grid(False)


def main(quick: bool, out: Path) -> dict[str, float]:
    count, frames = (4, 6) if quick else (24, 60)
    ball = travel(sphere, [1.0, 0.0, 0.0], 2.0, count, frames)
    valley = travel(deep_linear, [1.0, 1.0], 1.5, count, frames)
    distances = {
        "sphere": float((ball.end.norm(dim=1) - 1).abs().max()),
        "deep linear": float((valley.end.prod(dim=1) - 1).abs().max()),
    }
    for name, path in (("sphere", ball), ("deep linear", valley)):
        print(
            f"{name}: largest distance from the minima {distances[name]:.3f}, "
            f"largest energy violation {float(path.energy_violation.max()):.1e}, "
            f"{float(path.evaluations.double().mean()):.0f} gradients per particle"
        )
    out.mkdir(parents=True, exist_ok=True)
    animate(ball, valley, out / "any_function.gif")
    print(f"Animation: {out / 'any_function.gif'}")
    return distances


if __name__ == "__main__":
    from common import options

    main(**options(__doc__))
