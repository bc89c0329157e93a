"""Tests both clients at a service that asks for certificates of clients.

`ACP_URL` is its gRPC port with `https`, `ACP_KEY` the key of its administrator. `ACP_FILES` is a folder with `ca`, and with the
certificates and keys of two clients: `own` of the issuer that the service takes, and `other`.
"""

from __future__ import annotations

import asyncio
import os
import unittest
from pathlib import Path
from typing import Any, Optional

import grpc

import agent_control_plane as acp

URL, KEY, FILES = os.environ["ACP_URL"], os.environ["ACP_KEY"], Path(os.environ["ACP_FILES"])


def credentials_of(client: Optional[str], trusts: bool = True) -> grpc.ChannelCredentials:
    """The credentials with a client's certificate, and with the issuer of the service's."""
    read = lambda name: (FILES / name).read_bytes()
    own = {} if client is None else {"private_key": read(f"{client}.key"), "certificate_chain": read(f"{client}.crt")}
    return grpc.ssl_channel_credentials(root_certificates=read("ca") if trusts else None, **own)


def fault_of(credentials: Optional[grpc.ChannelCredentials]) -> str:
    """The fault of the blocking client; a service that is reached says that it knows no such agent."""
    with acp.Client(URL, KEY, credentials=credentials, timeout=2) as client:
        try:
            return str(client.intercept("pay", "12 EUR", "agt_unknown"))
        except acp.ControlPlaneRequestError as error:
            return str(error)


async def fault_in_asyncio(credentials: Optional[grpc.ChannelCredentials]) -> str:
    """The same of the client in asyncio."""
    async with acp.AsyncClient(URL, KEY, credentials=credentials, timeout=2) as client:
        try:
            return str(await client.intercept("pay", "12 EUR", "agt_unknown"))
        except acp.ControlPlaneRequestError as error:
            return str(error)


class Certificates(unittest.TestCase):
    def faults(self, credentials: Any) -> list[str]:
        return [fault_of(credentials), asyncio.run(fault_in_asyncio(credentials))]

    def test_shows_one(self) -> None:
        for fault in self.faults(credentials_of("own")):
            self.assertIn("agt_unknown", fault)

    def test_says_what_to_set_without_one(self) -> None:
        for fault in self.faults(credentials_of(None)):
            self.assertIn("`credentials` must have one", fault)

    def test_says_what_to_set_with_one_of_another_issuer(self) -> None:
        for fault in self.faults(credentials_of("other")):
            self.assertIn("`credentials` must have one", fault)

    def test_says_what_to_set_without_trust(self) -> None:
        for fault in [*self.faults(credentials_of("own", trusts=False)), *self.faults(None)]:
            self.assertIn("`credentials` must trust the issuer", fault)


if __name__ == "__main__":
    unittest.main()
