"""Pure rendering: accepted job in, Kubernetes and verl configuration out."""
