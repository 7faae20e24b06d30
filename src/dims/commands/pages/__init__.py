"""Tables and figures, from results that were computed elsewhere."""
