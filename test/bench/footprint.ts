import { setTimeout as delay } from "node:timers/promises";
import { withOwner } from "../support/owner.ts";
import type { Child } from "./child.ts";
import { memoryMib } from "./cpu.ts";
import type { Measured, Source } from "./load.ts";
import type { BenchOptions } from "./options.ts";
import type { BenchPostgres } from "./postgres.ts";
import { figure, tableFrom } from "./report.ts";
import { addWorkspace, planFor, seedWorkspace, startService } from "./service.ts";
import type { PartReport } from "./throughput.ts";

/** Bytes that a decision on an action of this many characters may take. */
const MAX_BYTES_A_DECISION = 1_300;
const CHARACTERS = 200;
const MAX_IDLE_MIB = 270;
/** Aim for it, which is not reached. */
const AIM_IDLE_MIB = 185;
/** Milliseconds after the start in which the service settles. */
const IDLE_MS = 5_000;
const AGENTS = 100;
/** Decisions in the log before it is measured, so that no page counts that is nearly empty. */
const DECISIONS = 10_000;

interface Size {
  readonly bytes: number;
  readonly decisions: number;
}

/** Reads how much the log takes on disk, its indexes included, and how many decisions it holds. */
async function sizeOf(databaseUrl: string): Promise<Size> {
  return withOwner(databaseUrl, async (client) => {
    await client.query("vacuum (analyze)");
    const { rows } = await client.query<Size>(`
      select count(*)::float8 as decisions, pg_total_relation_size('ledger_entry')::float8 as bytes
      from ledger_entry where kind = 0`);
    return rows[0] as Size;
  });
}

/** Returns the bytes of a decision that was added between two sizes. */
const bytesEach = (before: Size, after: Size): number =>
  (after.bytes - before.bytes) / (after.decisions - before.decisions);

/** Measures the bytes on disk of a decision with ten mandates in force, and the memory of a service that does nothing. */
export async function measureFootprint(
  options: BenchOptions,
  postgres: BenchPostgres,
  load: Child,
  cleanup: AsyncDisposableStack,
): Promise<PartReport> {
  const size = { agents: AGENTS, otherMandates: 0, decisions: DECISIONS };
  const workspace = await seedWorkspace(postgres, "footprint", size);
  const service = await startService(workspace, cleanup);
  await delay(IDLE_MS);
  const idleMib = memoryMib(service.server.pid);
  const before = await sizeOf(workspace.databaseUrl);
  const source: Source = { kind: "stream", targets: [service.grpc], streams: 8, inFlight: 64 };
  await load.ask<Measured>(planFor(source, options.seconds, service, postgres));
  const busyMib = memoryMib(service.server.pid);
  const after = await sizeOf(workspace.databaseUrl);
  const plain = { workspaceId: "plain", ...size, decisions: 2 * DECISIONS, contentLength: CHARACTERS };
  await addWorkspace(workspace.databaseUrl, plain);
  const bytes = bytesEach(after, await sizeOf(workspace.databaseUrl));
  const rows = [
    [`memory of the idle service, MiB (aim: ${AIM_IDLE_MIB})`, figure(idleMib)],
    ["memory after the load, MiB", figure(busyMib)],
    [
      `bytes on disk for each of ${after.decisions - before.decisions} decisions of the load`,
      figure(bytesEach(before, after)),
    ],
    [`bytes on disk for each of ${plain.decisions} on an action of ${CHARACTERS} characters`, figure(bytes)],
  ];
  return {
    text: tableFrom(["footprint", ""], rows),
    checks: [
      {
        name: `bytes on disk per decision on ${CHARACTERS} characters`,
        figures: [bytes],
        bound: { atMost: MAX_BYTES_A_DECISION },
        unit: "B",
      },
      { name: "memory of the idle service", figures: [idleMib], bound: { atMost: MAX_IDLE_MIB }, unit: "MiB" },
    ],
  };
}
