"""Six UCI classification sets: the default answer beside the network and a tuned ensemble."""
