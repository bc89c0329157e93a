import { useQuery } from "@connectrpc/connect-query";
import { useEffect, useState } from "react";
import { useSearchParams } from "wouter";
import { type Agent, AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/change-dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { LISTS } from "./authority-kinds.ts";
import { RevocationPreview } from "./revocation-preview.tsx";

const { previewRevocation, revokeAgent } = RevocationService.method;
const { getAgent, listAgents } = AgentService.method;
const MAX_REASON = 2_000;
const MAX_TYPED = 80;
/** Parameter of the address that opens the dialog. */
const ASKED = "revoke";

interface RevokeProps {
  readonly agent: Agent;
  readonly onRevoked: (revocationId: string) => void;
}

/**
 * Revokes an agent after a preview of its effects, with a reason and its typed name. The address of the screen asks for the dialog
 * with the parameter `revoke`.
 */
export function Revoke(props: RevokeProps) {
  const [parameters, setParameters] = useSearchParams();
  const isAsked = parameters.has(ASKED);
  const [isOpen, setIsOpen] = useState(isAsked);
  useEffect(() => {
    if (isAsked) setIsOpen(true);
  }, [isAsked]);
  const close = (): void => {
    setIsOpen(false);
    const without = (before: URLSearchParams): URLSearchParams => {
      const next = new URLSearchParams(before);
      next.delete(ASKED);
      return next;
    };
    if (isAsked) setParameters(without, { replace: true });
  };
  return (
    <>
      <Button action="revoke" tone="danger" onClick={() => setIsOpen(true)}>
        Revoke …
      </Button>
      {isOpen ? <RevokeDialog {...props} onClose={close} /> : null}
    </>
  );
}

/** Returns the text to type: the name, or the id if the name is too long or has invisible characters. */
function wordOf({ name, agentId }: Agent): string {
  const isTypeable = name.length <= MAX_TYPED && shownText(name) === name && name.trim() !== "";
  return isTypeable ? name : agentId;
}

function RevokeDialog({ agent, onRevoked, onClose }: RevokeProps & { readonly onClose: () => void }) {
  const { agentId, name } = agent;
  const preview = useQuery(previewRevocation, { agentId }, { staleTime: 0 });
  return (
    <Confirm
      title="Revoke the agent everywhere?"
      submit="Revoke everywhere"
      word={wordOf(agent)}
      isDisabled={!preview.isSuccess}
      isWide
      closesBy="escape"
      change={(call, values) => call(revokeAgent, { agentId, reason: values.text("reason") })}
      refreshes={[...LISTS, getAgent, listAgents]}
      done={`Revoked ${shownText(name)}.`}
      onDone={({ revocationId }) => onRevoked(revocationId)}
      onClose={onClose}
    >
      <p>
        <strong>
          <Shown text={name} />
        </strong>{" "}
        stops at once, on every replica: no later action of it, or on its behalf, is allowed. This cannot be undone.
      </p>
      {preview.isError ? <Fault error={preview.error} onRetry={() => void preview.refetch()} /> : null}
      {preview.isPending ? <Loading what="what would end" /> : null}
      {preview.isSuccess ? <RevocationPreview preview={preview.data} /> : null}
      <NamedField name="reason" label="Reason" hint="It stands in the certificate, the incident and the log.">
        {(control) => <textarea {...control} name="reason" rows={2} maxLength={MAX_REASON} />}
      </NamedField>
    </Confirm>
  );
}
