import { type Agent, AgentService, AgentStatus } from "../../../../gen/agentcontrol/v1/agent_service_pb.js";
import { RevocationService } from "../../../../gen/agentcontrol/v1/revocation_service_pb.js";
import { Confirm } from "../../kit/change-dialog.tsx";
import { countText } from "../../kit/count-text.ts";
import { DialogButton } from "../../kit/dialog.tsx";
import { NamedField } from "../../kit/form.tsx";
import { Shown } from "../../kit/shown.tsx";
import type { Call } from "../../kit/use-change.ts";
import { LISTS } from "../agents/authority-kinds.ts";

const { previewRevocation, revokeAgent } = RevocationService.method;
const MAX_REASON = 2_000;

/** Revokes agents one after the other. A fault says how many are revoked; revoking again goes on with the others. */
async function revokeAll(call: Call, agents: readonly Agent[], reason: string): Promise<number> {
  for (const [done, { agentId, name }] of agents.entries()) {
    try {
      await call(revokeAgent, { agentId, reason });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      throw new Error(`${done} of ${agents.length} are revoked; \`${name}\` is not: ${message}`);
    }
  }
  return agents.length;
}

/** Revokes several agents everywhere, each with a certificate of its own, with one reason and a typed word. */
export function RevokeSeveral({ agents }: { readonly agents: readonly Agent[] }) {
  const standing = agents.filter(({ status }) => status !== AgentStatus.REVOKED);
  if (standing.length === 0) return null;
  const what = countText(standing.length, "agent");
  return (
    <DialogButton action="revoke-several" tone="danger" label={`Revoke ${what} …`}>
      {(close) => (
        <Confirm
          title={`Revoke ${what} everywhere?`}
          submit="Revoke everywhere"
          word={`revoke ${standing.length}`}
          isWide
          closesBy="escape"
          change={(call, values) => revokeAll(call, standing, values.text("reason"))}
          refreshes={[...LISTS, previewRevocation, AgentService.method.getAgent, AgentService.method.listAgents]}
          done={(count) => `Revoked ${countText(count, "agent")}.`}
          onClose={close}
        >
          <p>They stop at once, on every replica, with all authority that they have or lent. This cannot be undone.</p>
          <ul className="preview-items">
            {standing.map(({ agentId, name }) => (
              <li key={agentId}>
                <Shown text={name} /> <code className="hint">{agentId}</code>
              </li>
            ))}
          </ul>
          <NamedField name="reason" label="Reason" hint="It stands in each certificate, the incidents and the log.">
            {(control) => <textarea {...control} name="reason" rows={2} maxLength={MAX_REASON} />}
          </NamedField>
        </Confirm>
      )}
    </DialogButton>
  );
}
