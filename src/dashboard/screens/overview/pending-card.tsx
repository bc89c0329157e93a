import { timestampMs } from "@bufbuild/protobuf/wkt";
import { Link } from "wouter";
import type { Escalation } from "../../../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Time, useNow } from "../../kit/time.tsx";
import { useEscalations } from "../../live/use-escalations.tsx";

const LOOK_EVERY_MS = 10_000;
const MINUTE_MS = 60_000;
const AGES = [
  { title: "under 5 minutes", fromMs: 0, toMs: 5 * MINUTE_MS },
  { title: "5 minutes to an hour", fromMs: 5 * MINUTE_MS, toMs: 60 * MINUTE_MS },
  { title: "over an hour", fromMs: 60 * MINUTE_MS, toMs: Number.POSITIVE_INFINITY },
] as const;

/** Number of pending escalations, and their ages; nothing while none waits. */
export function PendingCard() {
  const { pending } = useEscalations();
  const [oldest] = pending;
  if (oldest === undefined) return null;
  return (
    <section className="card stack" aria-label="Waiting for a person">
      <h2>Waiting for a person</h2>
      <p className="big">{pending.length.toLocaleString("en")}</p>
      <p className="hint">
        The oldest was asked <Time at={oldest.createdAt} />.
      </p>
      <Ages pending={pending} />
      <Link href="/escalations">Look at them</Link>
    </section>
  );
}

function Ages({ pending }: { readonly pending: readonly Escalation[] }) {
  const now = useNow(LOOK_EVERY_MS);
  const ages = pending.map(({ createdAt }) =>
    createdAt === undefined ? 0 : Math.max(0, now - timestampMs(createdAt)),
  );
  return (
    <dl className="ages">
      {AGES.map(({ title, fromMs, toMs }) => (
        <div key={title} data-age={title}>
          <dt>{title}</dt>
          <dd>{ages.filter((age) => age >= fromMs && age < toMs).length.toLocaleString("en")}</dd>
        </div>
      ))}
    </dl>
  );
}
