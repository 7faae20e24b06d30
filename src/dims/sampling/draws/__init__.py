"""What every sampler returns: draws, their diagnostics, their predictions, and their file."""

from dims.errors import DrawsFileError
from dims.sampling.draws.container import Draws
from dims.sampling.draws.file import load

__all__ = ["Draws", "DrawsFileError", "load"]
