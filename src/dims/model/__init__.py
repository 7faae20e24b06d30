"""A torch module and its data as a batched function of flat parameters."""
