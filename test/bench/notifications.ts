import { NotificationService } from "../../gen/agentcontrol/v1/notification_service_pb.js";
import { openNotifications } from "../notification/harness.ts";
import type { Child } from "./child.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, tableFrom } from "./report.ts";
import type { PartReport } from "./throughput.ts";

const ESCALATIONS = 50;
/** For connections and compilers. */
const WARM_UP = 5;
const MAX_MS = 1_000;

/** Milliseconds from the call that escalates to the message on servers of this machine, for each channel. */
export async function measureNotifications(
  _options: BenchOptions,
  _postgres: BenchPostgres,
  _load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const { push, slack, smtp, ...test } = await openNotifications();
  cleanup.defer(() => test.close());
  const person = await test.person();
  const client = person.plane.client(NotificationService);
  await test.configure();
  await client.addNotificationChannel({ email: "ann@example.com" });
  const { pushPublicKey } = await client.getNotificationPreferences({});
  await client.addNotificationChannel({ push: push.subscribe(pushPublicKey) });
  await test.link(person, "UANN");
  const arrivals = {
    "e-mail": (id: string) => smtp.mails.find(({ text }) => text.includes(id)),
    "Web Push": (id: string) => push.pushes.find(({ message }) => message.tag === id),
    Slack: (id: string) => slack.calls.find(({ raw }) => raw.includes(id)),
  };
  const times = new Map<string, number[]>(Object.keys(arrivals).map((name) => [name, []]));
  for (let count = 0; count < WARM_UP + ESCALATIONS; count++) {
    const startedAt = performance.now();
    const id = await test.escalate();
    const waits = Object.entries(arrivals).map(async ([name, arrive]) => {
      await arrive(id);
      if (count >= WARM_UP) times.get(name)?.push(performance.now() - startedAt);
    });
    await Promise.all(waits);
  }
  const p95 = (values: readonly number[]): number =>
    [...values].sort((a, b) => a - b)[Math.ceil(values.length * 0.95) - 1] ?? Number.NaN;
  const rows = [...times].map(([name, values]) => [name, figure(p95(values)), figure(Math.max(...values))]);
  return {
    text: tableFrom(["from escalation to message", "p95, ms", "slowest, ms"], rows),
    checks: [...times].map(([name, values]) => ({
      name: `p95 from escalation to message by ${name}`,
      figures: [p95(values)],
      bound: { atMost: MAX_MS },
      unit: "ms",
    })),
  };
}
