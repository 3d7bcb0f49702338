"""Makes the CPU image small."""
