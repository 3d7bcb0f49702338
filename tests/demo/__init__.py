"""`python -m tests.demo`: the main job, watched from outside."""
