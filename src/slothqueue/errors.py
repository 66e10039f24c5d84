"""Every error that slothqueue raises. Each says what happened and what to do next."""

from __future__ import annotations


class SlothError(Exception):
    """The root of all errors of slothqueue."""


class LeaseLost(SlothError):
    """The lease is no longer ours: it ended, ran out or was given to somebody else."""

    @classmethod
    def of(cls, job: int, attempt: int) -> LeaseLost:
        return cls(
            f"the lease on job {job} (attempt {attempt}) was lost: it had ended already, or the "
            "job was given to somebody else. Nothing was changed. Stop working on it; the job's "
            "history tells why."
        )


class JobNotFound(SlothError):
    """There is no job with this id in the store."""

    @classmethod
    def of(cls, job: int) -> JobNotFound:
        return cls(f"there is no job {job} in this store. `sloth list` shows those that there are.")


class JobFailed(SlothError):
    """The job ended in `failed`; the message carries its last error."""


class JobCancelled(SlothError):
    """The job was cancelled and has no result."""


class WrongState(SlothError):
    """What was asked for is not allowed in this state; the message says what is."""


class NotSerializable(SlothError):
    """A value has no JSON form, or is not what its annotation says; the message names the place."""


class StoreUnavailable(SlothError):
    """The store cannot be used; the message names the path, the reason and the way out."""


class StoreBusy(StoreUnavailable):
    """Another program kept the store locked for longer than we were told to wait."""


class StoreReadOnly(StoreUnavailable):
    """The file or its directory may not be written."""


class StoreCorrupt(StoreUnavailable):
    """The file is not a database, or is damaged. It was not touched."""


class StoreFull(StoreUnavailable):
    """The disk is full. What was confirmed is kept; what was asked for now was not done."""


class SchemaTooNew(SlothError):
    """The store was written by a newer slothqueue."""


class SchemaTooOld(SlothError):
    """The store must be migrated before this version can use it."""
