"""Content that sessions observe."""

from __future__ import annotations

import json
from typing import Any, Literal, Optional

from ._json import json_text
from .proto import enforcement_service_pb2 as enforcement

#: Bytes of a content as JSON that are sent: services by default read requests of 1 MiB.
_MAX_CONTENT_JSON = 983_040

_SOURCES = {
    "prompt": enforcement.OBSERVATION_SOURCE_PROMPT,
    "result": enforcement.OBSERVATION_SOURCE_RESULT,
}


def result_text(result: Any) -> Optional[str]:
    """Returns a text as it is, and anything else as JSON; None for no result. Raises a `TypeError` or `ValueError` for what is not JSON."""
    if result is None or isinstance(result, str):
        return result
    return json_text(result)


def error_text(error: BaseException) -> str:
    """Returns the text of an error, which a framework may show to the model."""
    return str(error)


def observe_request(
    session_id: str,
    source: Literal["prompt", "result"],
    content: str,
    decision_id: Optional[str] = None,
    is_error: bool = False,
) -> enforcement.ObserveRequest:
    """Builds the request. A content that is too long is cut, and says so."""
    text = _cut(content)
    return enforcement.ObserveRequest(
        session_id=session_id,
        source=_SOURCES[source],
        decision_id=decision_id,
        content=text,
        is_error=is_error,
        is_cut=len(text) < len(content),
    )


def _cut(content: str) -> str:
    # Characters that no message takes are replaced.
    text = content[:_MAX_CONTENT_JSON].replace("\0", " ").encode("utf-8", "replace").decode("utf-8")
    while len(text) * 6 > _MAX_CONTENT_JSON:
        size = len(json.dumps(text, ensure_ascii=False).encode("utf-8"))
        if size <= _MAX_CONTENT_JSON:
            break
        text = text[: len(text) * _MAX_CONTENT_JSON // size - 1]
    return text
