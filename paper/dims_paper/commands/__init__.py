"""Commands that this package adds to `dims`: reproduce, data, demo."""
