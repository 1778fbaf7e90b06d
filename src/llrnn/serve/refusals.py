"""A request that is not answered, and why: one exception, which the API turns into a status and two fields."""

from __future__ import annotations

from collections.abc import Mapping

from llrnn.ground.errors import LLRNNError


class Refused(LLRNNError):  # noqa: N818 (what it says: the request is refused)
    """An HTTP status, a code for programs, and a sentence for people: what was required, what was found, what to do."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, dict(headers or {})

    def body(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}
