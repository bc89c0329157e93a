import { Link } from "wouter";
import type { ListUse } from "../../../gen/agentcontrol/v1/list_service_pb.js";
import { Shown } from "./shown.tsx";

/** Properties of the sentence. */
export interface NamedByProps {
  /** Mandates in force, as many as the service tells. */
  readonly usedBy: readonly ListUse[];
  /** Number of all of them. */
  readonly uses: number;
}

/** Names the mandates in force that use a list or a group by its name. */
export function NamedBy({ usedBy, uses }: NamedByProps) {
  if (uses === 0) return <p>No mandate in force names it.</p>;
  return (
    <p>
      Named by{" "}
      {usedBy.map(({ mandateId, mandateName }, index) => (
        <span key={mandateId}>
          {index === 0 ? "" : ", "}
          <Link href={`/mandates/${encodeURIComponent(mandateId)}`}>
            <Shown text={mandateName} />
          </Link>
        </span>
      ))}
      {uses > usedBy.length ? ` and ${uses - usedBy.length} more` : ""}
    </p>
  );
}
