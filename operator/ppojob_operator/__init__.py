"""Trains with verl on KubeRay as a `PPOJob` says, and takes a run that goes bad back to a trusted checkpoint."""
