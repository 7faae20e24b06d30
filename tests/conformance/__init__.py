"""Checks of the contracts that you can implement yourself: one call in your own test each."""
