"""What torch should do itself: compiling, memory budgets, TF32, faster layers."""
