"""What every sampler returns: draws, their diagnostics, their predictions, and their file."""

from dims.sampling.draws.container import Draws
from dims.sampling.draws.file import load
from dims.sampling.draws.storage import DrawsFileError

__all__ = ["Draws", "DrawsFileError", "load"]
