"""The pages docs/reproduction/*.md: what the results say, between marks, in tables."""
