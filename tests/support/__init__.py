"""Builders, fakes and the way to the real cluster, for tests."""
