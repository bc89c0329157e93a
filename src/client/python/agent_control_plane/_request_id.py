"""Ids of requests."""

from __future__ import annotations

import uuid

_BYTES = 16
# FNV-1a with 128 bits (RFC 9923).
_FNV_OFFSET = 0x6C62272E07BB014262B821756295C58D
_FNV_PRIME = 0x1000000000000000000013B


def create_request_id() -> str:
    """Creates a random UUID."""
    return str(uuid.uuid4())


def presentation_id(request_id: str, escalation_id: str) -> str:
    """Derives the `request_id` with which a call presents an approval.

    It is the same for every attempt of one call with one escalation, so that a lost reply does not cost a second approval. It is
    a UUIDv8 (RFC 9562) of the hash of both ids, as in the TypeScript client.
    """
    value = _FNV_OFFSET
    for character in f"{request_id} {escalation_id}":
        value = ((value ^ ord(character)) * _FNV_PRIME) & ((1 << 8 * _BYTES) - 1)
    digest = bytearray(value.to_bytes(_BYTES, "little"))
    digest[6] = (digest[6] & 0x0F) | 0x80
    digest[8] = (digest[8] & 0x3F) | 0x80
    return str(uuid.UUID(bytes=bytes(digest)))
