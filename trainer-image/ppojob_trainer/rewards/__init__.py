"""The weighted sum of a job's reward terms."""
