"""One error tree. The class is the exit code, and says whether trying again can help.

MegatokError               1   anything else
├── RecipeError            2   bad recipe or arguments
│   └── PlacementError     2   a layout that does not fit its cluster
├── OverBudget             3   the worst case does not fit the budget, or there is no budget
├── NoCapacity             4   the cloud has none, at the price allowed
│   └── QuotaExceeded      4   the account may not have more
├── GateFailed             5   a node, a server or a gateway is not fit
├── ResultInvalid          6   at least one cell may not be published
├── TeardownUnproven       7   something may still be billed
├── Interrupted            8   stopped by a person or a signal, and torn down
├── Regression             9   a nightly figure fell
├── Unfit                 10   this machine lacks something
├── CloudError             1   the cloud's answer was no
│   ├── Throttled          1   (retry) too many calls
│   ├── NotYetTerminated   1   (retry) a dependent thing is still going away
│   ├── Unanswered         1   (retry) no answer, or one that cannot be read: the outcome is not known
│   ├── NotConfigured      1   this machine has no credentials for that cloud
│   └── Denied             1   credentials or rights
├── Fenced                 1   a newer owner of the run exists: stop creating
└── NodeError              1   a step on nodes failed; names each node
    └── ConnectionLost     1   (retry) no link to the node, or it broke: what ran there is not known
"""

from __future__ import annotations

from collections.abc import Mapping


class MegatokError(Exception):
    """Root of what this project raises; the message says what was wrong, the value, and the way out."""

    exit_code = 1
    retryable = False


class RecipeError(MegatokError):
    exit_code = 2


class PlacementError(RecipeError):
    pass


class OverBudget(MegatokError):
    exit_code = 3


class NoCapacity(MegatokError):
    exit_code = 4


class QuotaExceeded(NoCapacity):
    pass


class GateFailed(MegatokError):
    exit_code = 5


class ResultInvalid(MegatokError):
    exit_code = 6


class TeardownUnproven(MegatokError):
    exit_code = 7


class Interrupted(MegatokError):
    exit_code = 8


class Regression(MegatokError):
    exit_code = 9


class Unfit(MegatokError):
    exit_code = 10


class CloudError(MegatokError):
    pass


class Throttled(CloudError):
    retryable = True


class NotYetTerminated(CloudError):
    retryable = True


class Unanswered(CloudError):
    retryable = True


class NotConfigured(CloudError):
    pass


class Denied(CloudError):
    pass


class Fenced(MegatokError):
    pass


class NodeError(MegatokError):
    """`failures`: the node's name and what went wrong there; empty while the error is about a single node."""

    def __init__(self, message: str, failures: Mapping[str, MegatokError] | None = None) -> None:
        super().__init__(message)
        self.failures = dict(failures or {})


class ConnectionLost(NodeError):
    retryable = True


def why(error: Exception) -> str:
    """What it says; of one that is none of ours also what it is: the text of a KeyError is a bare key."""
    return str(error) if isinstance(error, MegatokError) else f"{type(error).__name__}: {error}"


SEVERITY = (7, 8, 3, 4, 5, 6, 9, 2, 10, 1)
"""Where several exit codes hold, the first of these wins."""


def worst(codes: list[int]) -> int:
    """The exit code to end with when `codes` all hold; 0 where none does."""
    return next((code for code in SEVERITY if code in codes), 0)
