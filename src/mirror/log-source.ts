import type { Pool } from "pg";
import { decisionFromNumber } from "../state/stored-enums.ts";
import { readMirrored } from "../store/sql/read-mirrored.ts";
import type { MirrorSource } from "./mirror-source.ts";
import type { MirrorEntry } from "./mirror-store.ts";

interface Row {
  readonly seq: number;
  readonly at: number;
  readonly kind: number;
  readonly agentId: string;
  readonly actionType: string;
  readonly decision: number;
  readonly leafHash: Buffer;
}

function entryFrom({ seq, at, kind, agentId, actionType, decision, leafHash }: Row): MirrorEntry {
  const decided = kind === 0 ? { agentId, actionType, decision: decisionFromNumber(decision) } : null;
  return { seq, at, leafHash: leafHash.toString("base64url"), decided };
}

/** The logs as a mirror reads them. */
export function createMirrorSource(pool: Pool): MirrorSource {
  return {
    async entries(workspaceId, from, limit) {
      const { rows } = await pool.query<Row>({ ...readMirrored, values: [workspaceId, from, limit] });
      return rows.map(entryFrom);
    },
  };
}
