"""Settings of all tests."""

import os

from hypothesis import settings

# The same examples at every run, so that a failure is one of the change under test; `HYPOTHESIS_PROFILE=explore` looks
# for new ones and prints the seed of what it finds.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
# Few examples: a mutant that only many of them kill is one that survives.
settings.register_profile("mutants", derandomize=True, deadline=None, max_examples=10)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
