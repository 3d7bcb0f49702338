"""Guardrails as one fold over the journal rows of a run: the same verdicts whatever the rhythm of looking.

guards.py       what a spec's guardrails, presets and defaults come to
bounds.py       the bound of a condition, and when a value is out of it
references.py   what a value is compared with: Start, Confirmed, Best, Median
readings.py     what one row says of one guardrail
cleanness.py    what a row says of the weights, and when that is enough to trust a checkpoint
episodes.py     how often, how long: breaches
fold.py         all of it, row by row along the lineage
"""
