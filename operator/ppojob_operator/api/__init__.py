"""Kubernetes API types, the one source of the custom resource definition."""
