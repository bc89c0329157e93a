import { ObservationSource } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { MAX_SESSION_DIGESTS } from "../../src/provenance/session-values.ts";
import { openWorkspace } from "../support/harness.ts";

/** Result of filling sessions. */
export interface FullSessionsReport {
  /** Bytes of the table of observations on disk, indexes included. */
  readonly storedBytes: number;
  /** Bytes of the sessions that the process keeps in memory. */
  readonly cachedBytes: number;
  /** Values of the session that has the fewest. */
  readonly fewestValues: number;
  readonly seconds: number;
}

/** Words that one observation tells. */
const WORDS = 4_000;
const CALLERS = 8;

/** Fills sessions with as many values as one may have. */
export async function fillSessions(sessions: number): Promise<FullSessionsReport> {
  const test = await openWorkspace();
  try {
    const agentId = await test.agent("a");
    const startedAt = performance.now();
    let left = sessions;
    let fewestValues = Number.POSITIVE_INFINITY;
    const fill = async (session: number): Promise<void> => {
      const { session: begun } = await test.authority.createSession({ agentId });
      const sessionId = begun?.sessionId ?? "";
      let values = 0;
      for (let part = 0; values < MAX_SESSION_DIGESTS; part++) {
        const words = Array.from({ length: WORDS - 1 }, (_, index) => `w${session}p${part}x${index.toString(36)}`);
        const content = words.join("\n");
        const told = await test.enforcement.observe({ sessionId, source: ObservationSource.PROMPT, content });
        values += told.values?.prompt ?? 0;
        if (told.observationsFull) break;
      }
      fewestValues = Math.min(fewestValues, values);
    };
    const lanes = Array.from({ length: CALLERS }, async () => {
      for (let session = left--; session > 0; session = left--) await fill(session);
    });
    await Promise.all(lanes);
    const { rows } = await test.database.pool.query<{ bytes: string }>(
      "select pg_total_relation_size('session_observation') + pg_total_relation_size('session_key') as bytes",
    );
    const { sessions: cached } = await test.log.caughtUp();
    return {
      storedBytes: Number(rows[0]?.bytes),
      cachedBytes: cached.bytes,
      fewestValues,
      seconds: (performance.now() - startedAt) / 1_000,
    };
  } finally {
    await test.close();
  }
}
