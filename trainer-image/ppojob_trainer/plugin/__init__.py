"""What verl loads in every process (VERL_USE_EXTERNAL_MODULES): the platform "cpu".

Kept this small because it is imported by all of a job's Ray processes, one after another; engines and rollout servers
are registered where they are used (`workers`, `trainer`).
"""

from ppojob_trainer.plugin import platform_cpu as platform_cpu
