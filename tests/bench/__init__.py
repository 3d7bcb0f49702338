"""Benchmarks: measured side by side on the real cluster, printed, not asserted."""
