"""Names of a job's Ray objects. Part of the UID is in each, so a name is never reused by another life of the job.

Limits: KubeRay 1.5 refuses a RayCluster's name above 53 characters and a RayJob's above 47, and cuts the names of pods
at 50 and those of some services at the front; a cluster's name of at most 41 characters is never cut.
"""

import re

from ppojob_contract.stages import Stage

MAX_CLUSTER_NAME = 41

UID_LENGTH = 5
_NUMBER_LENGTH = len("-c99999")
BASE_LENGTH = MAX_CLUSTER_NAME - _NUMBER_LENGTH
_NAME_LENGTH = BASE_LENGTH - UID_LENGTH - 1

_CLUSTER = re.compile(r".+-c([1-9][0-9]*)")
_STAGES = {stage.value.lower(): stage for stage in Stage}
_STAGE = re.compile(rf".+-({'|'.join(_STAGES)})-([1-9][0-9]*)")
_ATTEMPT = re.compile(r".+-a([1-9][0-9]*)")


def base(name: str, uid: str) -> str:
    """What all names of a job's objects begin with: the job's name, cut, and the first of its UID.

    `name` is a DNS-1035 label of up to 63 characters (the CRD sees to it).
    """
    return f"{name[:_NAME_LENGTH].rstrip('-')}-{uid[:UID_LENGTH]}"


def cluster_name(base_name: str, number: int) -> str:
    return f"{base_name}-c{number}"


def job_name(base_name: str, attempt: int) -> str:
    return f"{base_name}-a{attempt}"


def secret_name(base_name: str) -> str:
    return f"{base_name}-monitor"


def stage_job_name(base_name: str, stage: Stage, run: int) -> str:
    return f"{base_name}-{stage.value.lower()}-{run}"


def trial_name(base_name: str, run: int) -> str:
    """Of the PPOJob that tries the job out."""
    return f"{base_name}-trial-{run}"


def stage_run(name: str) -> tuple[Stage, int] | None:
    """Stage and run of `<base>-<stage>-<n>`; None for another name."""
    match = _STAGE.fullmatch(name)
    return (_STAGES[match[1]], int(match[2])) if match else None


def cluster_number(name: str) -> int | None:
    """The K of `<base>-c<K>`; None for another name."""
    match = _CLUSTER.fullmatch(name)
    return int(match[1]) if match else None


def attempt_number(name: str) -> int | None:
    """The N of `<base>-a<N>`; None for another name."""
    match = _ATTEMPT.fullmatch(name)
    return int(match[1]) if match else None
