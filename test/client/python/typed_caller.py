"""Uses of the package that a type checker takes, and those that it must not (marked `wrong`)."""

from typing import Union

import agent_control_plane as acp

client = acp.Client("localhost:7090", "key")
asynchronous = acp.AsyncClient("localhost:7090", "key")


@client.guard(agent_id="agt_1", action_type="pay")
def pay(amount: int) -> str:
    return f"paid {amount}"


@client.guard(agent_id="agt_1", action_type="pay", wait_on_escalate=False)
def pay_later(amount: int) -> str:
    return f"paid {amount}"


@asynchronous.guard(agent_id="agt_1", action_type="pay")
async def pay_async(amount: int) -> str:
    return f"paid {amount}"


@client.guard(agent_id="agt_1", action_type="pay", when_refused="result")
def pay_or_say(amount: int) -> int:
    return amount


paid: str = pay(1)
said: Union[int, str] = pay_or_say(1)
silent: int = pay_or_say(1)  # wrong
other: str = pay.with_options(session_id="ses_1")(1)
later: Union[str, acp.PendingApproval] = pay_later(1)
unsure: str = pay_later(1)  # wrong
pay("much")  # wrong
pay.with_options(sesion_id="ses_1")  # wrong


@client.guard(agent_id="agt_1")  # wrong
def unnamed() -> None: ...


@client.guard(agent_id="agt_1", action_type="pay", on_unreachable="ignore")  # wrong
def careless() -> None: ...


async def main() -> None:
    text: str = await pay_async(1)
    verdict: str = await asynchronous.wait("esc_1")
    number: int = await asynchronous.wait("esc_1")  # wrong
    print(text, verdict, number)
