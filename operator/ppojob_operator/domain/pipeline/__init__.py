"""Stages beside training: what each is told, what comes next, and what becomes of a run of one."""
