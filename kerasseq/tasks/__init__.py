"""Tasks × architectures: one model per task, over any architecture by name or layer."""
