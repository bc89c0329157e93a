import type { MessageInitShape } from "@bufbuild/protobuf";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { type RuleSchema, RuleType } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import type { ControlPlane, GuardOptions, PendingApproval } from "../../src/client/index.ts";
import { until } from "../support/harness.ts";
import { startService, type TestService } from "../support/service.ts";
import type { HttpProxy } from "./http-proxy.ts";

const RULES: readonly MessageInitShape<typeof RuleSchema>[] = [
  {
    type: RuleType.ACTION,
    decision: Decision.BLOCK,
    conditions: { matchActionTypes: ["danger.*"] },
    description: "too dangerous",
  },
  { type: RuleType.ACTION, decision: Decision.ESCALATE, conditions: { matchActionTypes: ["review.*"] } },
];

/** Starts a service that decides by action type: `danger.*` blocks, `review.*` escalates, all else passes. */
export const startRuledService = (env: Readonly<Record<string, string>> = {}): Promise<TestService> =>
  startService({ env, rules: RULES });

/** A function that counts its runs, and a guard around it. */
export interface Probe {
  readonly runs: unknown[];
  call(value: unknown): Promise<string | PendingApproval>;
}

/** Guards a function of one argument for an agent's actions. */
export function createProbe(controlPlane: ControlPlane, options: ProbeOptions): Probe {
  const runs: unknown[] = [];
  const run = (value: unknown): string => `ran ${runs.push(value)}`;
  const toArguments = (value: unknown) => ({ value });
  const { waitOnEscalate = true, ...rest } = options;
  if (waitOnEscalate) return { runs, call: controlPlane.guard(run, { toArguments, ...rest }) };
  return { runs, call: controlPlane.guard(run, { toArguments, ...rest, waitOnEscalate }) };
}

type ProbeOptions = Pick<GuardOptions<[unknown]>, "agentId" | "actionType"> &
  Partial<Omit<GuardOptions<[unknown]>, "waitOnEscalate">> & { readonly waitOnEscalate?: boolean };

/** What a promise rejects with. Fails when it does not. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: Error) => ({ error }),
  );
  if ("error" in outcome) return outcome.error;
  throw new Error(`it did not reject but gave ${JSON.stringify(outcome.value)}`);
}

/** The first escalation that an agent has pending, as soon as there is one. */
export async function pendingEscalationOf(admin: ControlPlane, agentId: string): Promise<string> {
  const watching = new AbortController();
  try {
    const changes = admin.client(EscalationService).watchEscalations({}, { signal: watching.signal });
    for await (const { escalation } of changes) {
      if (escalation?.agentId === agentId) return escalation.escalationId;
    }
    throw new Error("the watch ended without an escalation");
  } finally {
    watching.abort();
  }
}

/** Resolves once the server sent so many more pieces on streams through a proxy. */
export async function morePieces(proxy: HttpProxy, count: number): Promise<void> {
  const from = proxy.pieces;
  await until(() => proxy.pieces >= from + count);
}

/** An address on which nobody listens. */
export const NOWHERE = "http://127.0.0.1:4747";
