"""From a trained network to draws: perturbations, samplers, settling, certificates, runs."""
