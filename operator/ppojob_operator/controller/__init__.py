"""Observe, decide, record, act."""
