import type { Draws } from "../log/linearisable-rules.ts";

/** A budget that payments pay into. */
export interface PaymentBudget {
  readonly name: string;
  readonly decision: "block" | "escalate";
  readonly tools: readonly string[];
  readonly scope: "agent" | "department" | "workspace";
  /** With scope `department`: the one whose members pay together. */
  readonly departmentId?: string;
  readonly windowSeconds: number;
  readonly maxTotal: number;
}

/** Outcome that a client reports, unless it is killed before. `silent` reports none. */
export interface PlannedEnd {
  readonly status: "succeeded" | "failed" | "cancelled" | "silent";
  readonly amount?: number;
}

/** One payment: all that its clients do about it, but for their claims. */
export interface PaymentPlan {
  readonly requestId: string;
  /** Of the action that presents the approval, if the first one escalates. */
  readonly approvedRequestId: string;
  readonly agentId: string;
  readonly tool: string;
  readonly amount: number;
  /** Milliseconds after its client has begun. */
  readonly startMs: number;
  /** Milliseconds that the tool takes. */
  readonly workMs: number;
  /** False: the action is claimed by a call of its own. */
  readonly claimsAtOnce: boolean;
  readonly isApproved: boolean;
  readonly end: PlannedEnd;
}

/** Settings of a client's process. */
export interface ClientJob {
  /** Addresses of the servers, tried in turn. */
  readonly servers: readonly string[];
  /** Key of role `agent`, bound to none. */
  readonly agentKey: string;
  /** Key of the one who approves. */
  readonly adminKey: string;
  /** File of the lines that clients append. */
  readonly journal: string;
  /** Milliseconds after which the client gives up. */
  readonly limitMs: number;
  readonly plans: readonly PaymentPlan[];
}

/** Line that a client appends to the journal: a run of the tool, an outcome whose report was answered, or an answer that no client expects. */
export type JournalLine =
  | { readonly kind: "ran"; readonly requestId: string; readonly decisionId: string; readonly claimId: string }
  | { readonly kind: "reported"; readonly decisionId: string; readonly status: string; readonly amount?: number }
  | { readonly kind: "unexpected"; readonly what: string };

/** Schema of the arguments of both tools. */
export const PAYMENT_SCHEMA = {
  type: "object",
  properties: { amount: { type: "number" }, currency: { type: "string" } },
};

/** The tools that pay. */
export const PAYMENT_TOOLS: readonly string[] = ["send_payment", "refund"];

/** The budgets of a round, for so many payments. About half of the payments fit. */
export function budgetsFor(payments: number, departmentIds: readonly string[]): readonly PaymentBudget[] {
  const [tools, windowSeconds] = [PAYMENT_TOOLS, 3_600];
  return [
    // Payments leave the window during the round.
    { name: "all", decision: "block", tools, scope: "workspace", windowSeconds: 2, maxTotal: 2.5 * payments },
    {
      name: "an agent",
      decision: "block",
      tools: ["Send_Payment"],
      scope: "agent",
      windowSeconds,
      maxTotal: 0.2 * payments,
    },
    {
      name: "refunds",
      decision: "escalate",
      tools: ["refund"],
      scope: "workspace",
      windowSeconds,
      maxTotal: 0.7 * payments,
    },
    ...departmentIds.map((departmentId): PaymentBudget => {
      const members = { scope: "department", departmentId } as const;
      return { name: departmentId, decision: "block", tools, ...members, windowSeconds, maxTotal: 2 * payments };
    }),
  ];
}

const MOST_AMOUNT = 20;

/** An amount between two whole ones, with up to six places. */
function amountFrom({ below, pick }: Draws, least: number, most: number): number {
  const parts = pick([1, 100, 10_000, 1_000_000]);
  return (least * parts + below((most - least) * parts + 1)) / parts;
}

function endOf(draws: Draws, amount: number): PlannedEnd {
  const drawn = draws.below(100);
  if (drawn < 40) return { status: "succeeded" };
  if (drawn < 55) return { status: "succeeded", amount: amountFrom(draws, 0, Math.floor(amount)) };
  if (drawn < 60) return { status: "succeeded", amount: amountFrom(draws, Math.ceil(amount), 2 * MOST_AMOUNT) };
  if (drawn < 75) return { status: "failed" };
  return { status: drawn < 90 ? "cancelled" : "silent" };
}

function uuidFrom({ below }: Draws): string {
  const hex = (digits: number) => Array.from({ length: digits }, () => below(16).toString(16)).join("");
  return `${hex(8)}-${hex(4)}-4${hex(3)}-8${hex(3)}-${hex(12)}`;
}

/** Draws a payment of one of the agents that begins within `spreadMs`. */
export function drawPayment(draws: Draws, agentIds: readonly string[], spreadMs: number): PaymentPlan {
  const { below, chance, pick } = draws;
  const amount = amountFrom(draws, 0, MOST_AMOUNT);
  return {
    requestId: uuidFrom(draws),
    approvedRequestId: uuidFrom(draws),
    agentId: pick(agentIds),
    tool: chance(75) ? "send_payment" : "refund",
    amount,
    startMs: below(spreadMs),
    workMs: below(300),
    claimsAtOnce: chance(70),
    isApproved: chance(60),
    end: endOf(draws, amount),
  };
}
