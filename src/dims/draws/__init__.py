"""What every sampler returns: draws, their diagnostics, their predictions, and their file."""

from dims.draws.container import Draws
from dims.draws.file import load
from dims.draws.storage import DrawsFileError

__all__ = ["Draws", "DrawsFileError", "load"]
