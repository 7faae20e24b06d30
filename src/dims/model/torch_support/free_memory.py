"""How much memory is free, and a refusal with numbers before it runs out."""

from __future__ import annotations

from pathlib import Path

import torch

from dims.errors import MemoryLimitError

__all__ = ["check_fits", "free_memory", "readable"]

MEMINFO = Path("/proc/meminfo")
LIMIT, USED = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")


def free_memory(device: torch.device) -> int | None:
    """Bytes that can be had on a device; None where the system does not say."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    if device.type != "cpu":
        return None
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        free = 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, LookupError, ValueError):
        return None
    try:  # a container may allow less than the machine has
        return min(free, int(LIMIT.read_text()) - int(USED.read_text()))
    except (OSError, ValueError):
        return free


def check_fits(what: str, needed: int, device: torch.device, advice: str) -> None:
    """Refuse what does not fit into the memory that is free, where that is known.

    Args:
        what: The argument and what it asks for.
        needed: Bytes.
        device: Where.
        advice: What to do instead.

    Raises:
        MemoryLimitError: It does not fit.
    """
    free = free_memory(device)
    if free is not None and needed > free:
        raise MemoryLimitError(
            f"{what} would need about {readable(needed)}, and {readable(free)} are free on "
            f"{device}; {advice}"
        )


def readable(size: int) -> str:
    """Bytes for people: "1.5 GB"."""
    number = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
