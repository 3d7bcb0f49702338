"""The monitor: a job's files over HTTP. Reads only, but for the mailbox, the claim and the confirmations.

No import of torch, Ray or verl here: it starts in a second and stays below 80 MB.
"""
