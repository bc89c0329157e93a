import { setTimeout as delay } from "node:timers/promises";
import { createNodeControlPlane } from "../../src/client/node/index.ts";
import type { Stage } from "./stage.ts";

/** EUR that the three agents may pay in an hour, together. */
export const POT = 100;
/** Seconds after which nobody knows how a payment ended that was not reported. */
const TIMEOUT_SECONDS = 1;

/** How the bank answers a payment. */
type Bank = "pays" | "refuses" | "is silent";

/** A payment as the agent hears of it. */
export interface Payment {
  readonly decisionId: string;
  /** The error's name, or undefined if it was paid. */
  readonly fault: string | undefined;
}

/** Three agents that pay from one pot, with the client library. */
export interface Payers {
  pay(name: "ann" | "ben" | "cas", amount: number, bank?: Bank): Promise<Payment>;
  /** Resolves once a payment that nobody reported is unknown. */
  whenUnknown(decisionId: string): Promise<void>;
  /** EUR that still fit. */
  remaining(): Promise<number>;
}

/** Registers the tool, the pot and the agents. */
export async function setPayers({ http, adminKey, rest }: Stage, cleanup: AsyncDisposableStack): Promise<Payers> {
  await rest("PATCH", "/v1/admin/workspaces/default", { outcome_timeout_seconds: TIMEOUT_SECONDS });
  const properties = { amount: { type: "number" }, currency: { type: "string" } };
  await rest("POST", "/v1/enforce/tools", { name: "pay", input_schema: { type: "object", properties } });
  const conditions = {
    mode: "budget",
    sums: [{ tool: "pay", field: "amount" }],
    currency: "EUR",
    max_total: POT,
    window_seconds: 3_600,
    scope: "workspace",
  };
  const rules = [{ type: "sequence", decision: "block", conditions }];
  await rest("POST", "/v1/enforce/mandates", { name: "one pot for three", rules });
  const ids = new Map<string, string>();
  for (const name of ["ann", "ben", "cas"]) {
    const { agent } = await rest("POST", "/v1/enforce/agents", { name });
    ids.set(name, (agent as { agent_id: string }).agent_id);
  }
  const controlPlane = createNodeControlPlane({ baseUrl: http, apiKey: adminKey });
  cleanup.defer(() => controlPlane.close());
  return {
    async pay(name, amount, bank = "pays") {
      let decisionId = "";
      const guarded = controlPlane.guard(async () => answerOf(bank), {
        agentId: ids.get(name) ?? "",
        actionType: "pay",
        tool: "pay",
        toArguments: () => ({ amount, currency: "EUR" }),
        onDecision: (decision) => {
          decisionId = decision.decisionId;
        },
      });
      const fault = await guarded().then(
        () => undefined,
        (error: Error) => error.name,
      );
      return { decisionId, fault };
    },
    async whenUnknown(decisionId) {
      for (;;) {
        const { decision } = await rest("GET", `/v1/enforce/decisions/${decisionId}`);
        if ((decision as { outcome?: { status: string } }).outcome?.status === "unknown") return;
        await delay(100);
      }
    },
    async remaining() {
      const { limits } = await rest("GET", "/v1/enforce/limits");
      const groups = (limits as { groups: { budget?: { remaining: number } | null }[] }[]).flatMap(
        (each) => each.groups,
      );
      return groups.find(({ budget }) => budget)?.budget?.remaining ?? POT;
    },
  };
}

/** Answers as a bank does. A payment without an answer may have been made. */
function answerOf(bank: Bank): string {
  if (bank === "refuses") throw new Error("the account is closed");
  if (bank === "is silent") throw new DOMException("the bank did not answer in time", "TimeoutError");
  return "paid";
}
