"""A/B: the trained model and another answer the same prompts, and a judge says whose answer is better."""
