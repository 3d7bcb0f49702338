"""Names of a job's Ray objects, for any job the API server lets in."""

import re

from hypothesis import given
from hypothesis import strategies as st

from ppojob_operator.render import names
from ppojob_operator.render.raycluster import WORKER_GROUP

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

job_names = st.from_regex(r"\A[a-z]([-a-z0-9]{0,61}[a-z0-9])?\Z")
uids = st.uuids().map(str)
numbers = st.integers(min_value=1, max_value=9999)


@given(job_names, uids, numbers)
def test_names_are_valid_and_within_kuberays_limits(name: str, uid: str, number: int) -> None:
    base = names.base(name, uid)
    cluster, job, secret = names.cluster_name(base, number), names.job_name(base, number), names.secret_name(base)
    for found in (base, cluster, job, secret):
        assert DNS_1035.fullmatch(found), found
        assert "--" not in found or "--" in name
    assert len(cluster) <= names.MAX_CLUSTER_NAME
    assert len(job) <= 47
    # KubeRay 1.5: a service <cluster>-head-svc, pods <cluster>-<group>-worker-<5>, uncut up to 63 characters.
    assert len(f"{cluster}-head-svc") <= 63
    assert len(f"{cluster}-{WORKER_GROUP}-worker-abcde") <= 63


@given(job_names, uids, numbers)
def test_numbers_are_read_back(name: str, uid: str, number: int) -> None:
    base = names.base(name, uid)
    assert names.cluster_number(names.cluster_name(base, number)) == number
    assert names.attempt_number(names.job_name(base, number)) == number


@given(job_names, uids, st.tuples(numbers, numbers))
def test_names_differ(name: str, uid: str, pair: tuple[int, int]) -> None:
    base = names.base(name, uid)
    made = {names.cluster_name(base, n) for n in pair} | {names.job_name(base, n) for n in pair}
    assert len(made) == 2 * len(set(pair))
    assert names.secret_name(base) not in made


@given(job_names, uids, uids)
def test_another_life_has_other_names(name: str, one: str, other: str) -> None:
    if one[: names.UID_LENGTH] != other[: names.UID_LENGTH]:
        assert names.base(name, one) != names.base(name, other)


def test_a_name_of_63_characters_and_the_shortest() -> None:
    uid = "12345678-0000-0000-0000-000000000000"
    assert names.base("a" * 63, uid) == "a" * 28 + "-12345"
    assert names.base("a", uid) == "a-12345"
    assert names.base("a" * 27 + "-" + "b" * 10, uid) == "a" * 27 + "-12345"


def test_other_names_have_no_number() -> None:
    for name in ("x-c0", "x-c", "c1", "x-a01", "x-monitor", "x-c1-head", ""):
        assert names.cluster_number(name) is None
        assert names.attempt_number(name) is None
