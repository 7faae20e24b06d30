"""Loss surfaces: the value, gradient and Hessian-vector product of a function of θ, in rows."""
