"""The UCI regression benchmark: nine public sets, their published splits and results."""
