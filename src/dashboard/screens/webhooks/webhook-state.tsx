import type { Webhook } from "../../../../gen/agentcontrol/v1/webhook_service_pb.js";
import { Badge } from "../../kit/badge.tsx";
import { Time } from "../../kit/time.tsx";

/** State of a webhook's deliveries. */
export function WebhookState({ webhook: { isActive, failures, nextAttemptAt } }: { readonly webhook: Webhook }) {
  if (!isActive) return <Badge tone="plain">inactive</Badge>;
  if (failures === 0) return <Badge tone="good">delivers</Badge>;
  return (
    <span className="row">
      <Badge tone="bad">
        {failures} {failures === 1 ? "attempt" : "attempts"} failed
      </Badge>
      {nextAttemptAt === undefined ? null : (
        <span className="hint">
          next <Time at={nextAttemptAt} />
        </span>
      )}
    </span>
  );
}
