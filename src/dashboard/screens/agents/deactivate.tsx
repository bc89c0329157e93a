import { useMutation } from "@connectrpc/connect-query";
import { useState } from "react";
import { type Agent, AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/confirm.tsx";
import { Shown } from "../../kit/shown.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";

/** Deactivates an agent after a confirmation. */
export function Deactivate({ agent: { agentId, name } }: { readonly agent: Agent }) {
  const [isOpen, setIsOpen] = useState(false);
  const refresh = useRefresh();
  const { mutate, isPending, error, reset } = useMutation(AgentService.method.deactivateAgent, {
    onSuccess() {
      setIsOpen(false);
      refresh(AgentService.method.getAgent, AgentService.method.listAgents);
    },
  });
  return (
    <>
      <Button action="deactivate" onClick={() => setIsOpen(true)}>
        Deactivate
      </Button>
      {isOpen ? (
        <Confirm
          title="Deactivate the agent?"
          action="confirm"
          submit="Deactivate"
          isBusy={isPending}
          error={error}
          onConfirm={() => mutate({ agentId })}
          onClose={() => {
            setIsOpen(false);
            reset();
          }}
        >
          <p>
            <strong>
              <Shown text={name} />
            </strong>
          </p>
          <p>
            Each later action of it is blocked, and it cannot be activated again. Authority that it lent to others
            stays; to end that too, revoke the agent.
          </p>
        </Confirm>
      ) : null}
    </>
  );
}
