"""Trains one attempt of a PPOJob with unmodified verl, and reports on it.

Modules that import torch, Ray or verl are `cluster`, `configuration`, `main`, `runner`, `supervision`, `toy`,
`trainer`, `batch`, `workers` and the package `plugin`; the others need no more than the standard library, so that the
monitor stays small and the rules can be tested anywhere.
"""
