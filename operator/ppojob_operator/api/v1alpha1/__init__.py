"""`rlhf.dev/v1alpha1`."""
