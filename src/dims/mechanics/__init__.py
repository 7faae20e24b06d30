"""The motion of a particle on a surface: dynamics, solvers, energies, trajectories."""
