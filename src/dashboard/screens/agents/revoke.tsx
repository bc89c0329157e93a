import { useMutation, useQuery } from "@connectrpc/connect-query";
import { type FormEvent, useState } from "react";
import { type Agent, AgentService } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { Button } from "../../kit/button.tsx";
import { isTyped, TypedWord } from "../../kit/confirm.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { Shown, shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";
import { useAnnounce } from "../../kit/toast.tsx";
import { useRefresh } from "../../kit/use-refresh.ts";
import { LISTS } from "./authority-kinds.ts";
import { RevocationPreview } from "./revocation-preview.tsx";

const MAX_REASON = 2_000;
const MAX_TYPED = 80;

interface RevokeProps {
  readonly agent: Agent;
  readonly onRevoked: (revocationId: string) => void;
}

/** Revokes an agent: after a preview of all that ends, with a reason, and when its name was typed. */
export function Revoke({ agent, onRevoked }: RevokeProps) {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <>
      <Button action="revoke" tone="danger" onClick={() => setIsOpen(true)}>
        Revoke …
      </Button>
      {isOpen ? <RevokeDialog agent={agent} onRevoked={onRevoked} onClose={() => setIsOpen(false)} /> : null}
    </>
  );
}

/** Returns what has to be typed: the name, or the id of an agent whose name nobody can type. */
function wordOf({ name, agentId }: Agent): string {
  const isTypeable = name.length <= MAX_TYPED && shownText(name) === name && name.trim() !== "";
  return isTypeable ? name : agentId;
}

function RevokeDialog({ agent, onRevoked, onClose }: RevokeProps & { readonly onClose: () => void }) {
  const { agentId, name } = agent;
  const preview = useQuery(RevocationService.method.previewRevocation, { agentId }, { staleTime: 0 });
  const [reason, setReason] = useState("");
  const [typed, setTyped] = useState("");
  const refresh = useRefresh();
  const announce = useAnnounce();
  const { mutate, isPending, error } = useMutation(RevocationService.method.revokeAgent, {
    onSuccess({ revocationId }) {
      refresh(...LISTS, AgentService.method.getAgent, AgentService.method.listAgents);
      announce({ tone: "good", text: `Revoked ${shownText(name)}.` });
      onClose();
      onRevoked(revocationId);
    },
  });
  const word = wordOf(agent);
  const send = (event: FormEvent): void => {
    event.preventDefault();
    if (isTyped(typed, word)) mutate({ agentId, reason: reason.trim() });
  };
  return (
    <Dialog title="Revoke the agent everywhere?" isOpen isWide closesBy="escape" onClose={onClose}>
      <form className="stack" onSubmit={send}>
        <p>
          <strong>
            <Shown text={name} />
          </strong>{" "}
          stops at once, on every replica: no later action of it, or on its behalf, is allowed. This cannot be undone.
        </p>
        {preview.isError ? <Fault error={preview.error} onRetry={() => void preview.refetch()} /> : null}
        {preview.isPending ? <Loading what="what would end" /> : null}
        {preview.isSuccess ? <RevocationPreview preview={preview.data} /> : null}
        <Field label="Reason" hint="It stands in the certificate, the incident and the log.">
          {(control) => (
            <textarea
              {...control}
              name="reason"
              rows={2}
              maxLength={MAX_REASON}
              value={reason}
              onChange={({ target }) => setReason(target.value)}
            />
          )}
        </Field>
        <TypedWord word={word} typed={typed} onType={setTyped} />
        {error === null ? null : <Fault error={error} />}
        <div className="dialog-actions">
          <Button action="cancel" onClick={onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            action="confirm"
            tone="danger"
            isBusy={isPending}
            disabled={!preview.isSuccess || !isTyped(typed, word)}
          >
            Revoke everywhere
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
