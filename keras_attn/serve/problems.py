"""Problems of requests, with their HTTP status."""


class RequestProblem(Exception):
    """Raised if a request is refused.

    Args:
        status: HTTP status: 400 bad request, 404 unknown, 413 too large, 429 overload, 504 too
            slow.
        message: What was expected, and what was received.

    Example:

    >>> RequestProblem(429, "Too many requests wait.").status
    429
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message
