"""Errors whose type says what follows. Anything else is a defect: it is logged with its traceback and retried."""


class PPOJobError(Exception):
    """Base of the project's errors."""


class Conflict(PPOJobError):
    """The object changed since it was read: observe again."""


class ClusterUnavailable(PPOJobError):
    """The API server did not do what was asked, and may do it later."""


class CRDMismatch(ClusterUnavailable):
    """The API server's PPOJobs are not those that this operator writes."""


class MonitorUnavailable(PPOJobError):
    """A job's monitor could not be reached or gave no usable answer."""


class MonitorRefused(PPOJobError):
    """The monitor answered that it will not do this."""


class QueryUnavailable(PPOJobError):
    """Prometheus could not be reached or gave no usable answer."""


class QueryRefused(PPOJobError):
    """Prometheus answered that it cannot carry this query out."""


class LeadershipLost(PPOJobError):
    """Another operator holds the Lease: this one must stop at once."""
