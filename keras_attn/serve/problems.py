"""Problems of requests, with their HTTP status."""


class RequestProblem(Exception):
    """Raised if a request is refused.

    Args:
        status: HTTP status: 400 for a bad request, 404 for an unknown model or path, 413 for a
            request that is too large, 429 for overload, 504 for a timeout.
        message: What was expected, and what was received.

    Example:

    >>> RequestProblem(429, "Too many requests wait.").status
    429
    """

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
        self.message = message
