import { AuthorityStatus } from "../../../../gen/agentcontrol/v1/authority_service_pb.js";
import { Badge, type Tone } from "../../kit/badge.tsx";

const STATUSES: Readonly<Record<number, readonly [Tone, string]>> = {
  [AuthorityStatus.ACTIVE]: ["good", "active"],
  [AuthorityStatus.ENDED]: ["bad", "ended"],
  [AuthorityStatus.EXPIRED]: ["plain", "expired"],
  [AuthorityStatus.USED_UP]: ["plain", "used up"],
};

/** Status of a piece of authority. */
export function AuthorityBadge({ status }: { readonly status: AuthorityStatus }) {
  const [tone, word] = STATUSES[status] ?? ["plain", "unknown"];
  return <Badge tone={tone}>{word}</Badge>;
}
