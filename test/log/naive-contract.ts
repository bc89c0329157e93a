import type { NaiveBody, NaiveState } from "./naive-log.ts";
import { matches } from "./naive-rules.ts";

/** Step of a plan: a tool, and the largest amount of its argument. */
interface NaiveStep {
  readonly tool: string;
  readonly most: number;
  readonly maxCalls: number;
  calls: number;
}

/** An intent contract of the naive model. */
export interface NaiveContract {
  readonly id: string;
  readonly agentId: string;
  readonly types: readonly string[] | undefined;
  readonly steps: readonly NaiveStep[];
  readonly sessionId: string | undefined;
  readonly outside: string;
  readonly isByAgent: boolean;
  readonly maxUses: number;
  uses: number;
  isEnded: boolean;
}

/** A contract as sealed. Its only condition is `amount <= number`. */
export interface SealedContract {
  readonly id: string;
  readonly kind: string;
  readonly agent_id: string;
  readonly by_agent?: true;
  readonly action_types?: readonly string[];
  readonly steps?: readonly {
    readonly tool: string;
    readonly max_calls?: number;
    readonly conditions?: { readonly rules: readonly { readonly value: number }[] };
  }[];
  readonly session_id?: string;
  readonly outside?: string;
  readonly max_uses: number | null;
}

/** Contract that covers an action, in the words of the body. */
export interface NaiveCovering {
  readonly intent_contract_id: string;
  readonly by_agent?: true;
  readonly outside?: true;
  readonly step?: number;
}

/** Result of the contracts that cover an action; `asks`: how many of them ask a person. */
export type Contracted =
  | { readonly code: string }
  | { readonly covering: readonly NaiveCovering[]; readonly asks: number };

/** The contract that was sealed. */
export const contractFrom = (sealed: SealedContract): NaiveContract => ({
  id: sealed.id,
  agentId: sealed.agent_id,
  types: sealed.action_types,
  steps: (sealed.steps ?? []).map(({ tool, max_calls, conditions }) => ({
    tool,
    most: conditions?.rules[0]?.value ?? Number.POSITIVE_INFINITY,
    maxCalls: max_calls ?? Number.POSITIVE_INFINITY,
    calls: 0,
  })),
  sessionId: sealed.session_id,
  outside: sealed.outside ?? "block",
  isByAgent: sealed.by_agent === true,
  maxUses: sealed.max_uses ?? Number.POSITIVE_INFINITY,
  uses: 0,
  isEnded: false,
});

const amountOf = ({ action }: NaiveBody): unknown =>
  (action.metadata?.arguments as { readonly amount?: unknown } | undefined)?.amount;

function fits({ tool, most, maxCalls, calls }: NaiveStep, body: NaiveBody): boolean {
  if (tool !== body.action.tool || calls >= maxCalls) return false;
  const amount = amountOf(body);
  return most === Number.POSITIVE_INFINITY || (typeof amount === "number" && amount <= most);
}

/** Step 4 of design §4, for the contract that the action names and the one of its session. */
export function contractedBy({ contracts }: NaiveState, body: NaiveBody): Contracted {
  const { intent_contract_id: named, session_id: sessionId, action } = body;
  const open = contracts.filter(({ isEnded }) => !isEnded);
  const own = open.find(({ id, agentId }) => id === named && agentId === action.agent_id);
  if (named !== undefined && own === undefined) return { code: "INTENT_CONTRACT_UNKNOWN" };
  const ofSession = open.find((each) => sessionId !== undefined && each.sessionId === sessionId);
  const covering: NaiveCovering[] = [];
  let asks = 0;
  for (const contract of new Set([own, ofSession])) {
    if (contract === undefined) continue;
    const { id, types, steps, outside, uses, maxUses } = contract;
    if (uses >= maxUses) return { code: "INTENT_CONTRACT_EXPIRED" };
    const isListed = types === undefined || matches(types, action.action_type.trim().toLowerCase());
    const step = steps.findIndex((each) => fits(each, body));
    const isInside = isListed && (steps.length === 0 || step >= 0);
    if (!isInside && outside === "block") return { code: "OUTSIDE_CONTRACT" };
    if (!isInside && outside === "escalate") asks += 1;
    covering.push({
      intent_contract_id: id,
      ...(contract.isByAgent ? { by_agent: true as const } : {}),
      ...(isInside ? {} : { outside: true as const }),
      ...(isInside && step >= 0 ? { step } : {}),
    });
  }
  return { covering, asks };
}

/** Ids of the contracts that admit an action. */
export const admittingIn = (covering: readonly NaiveCovering[]): string[] =>
  covering.flatMap(({ intent_contract_id, outside }) => (outside === true ? [] : [intent_contract_id]));

/** What the body seals of the contracts: nothing where only the one that the action names admits it, without a plan. */
export function sealedCovering(
  covering: readonly NaiveCovering[],
  named: string | undefined,
): readonly NaiveCovering[] {
  const isPlain = (each: NaiveCovering): boolean =>
    each.intent_contract_id === named &&
    each.outside === undefined &&
    each.step === undefined &&
    each.by_agent === undefined;
  return covering.every(isPlain) ? [] : covering;
}

/** Counts an allowed action under the contracts that admit it. */
export function useContracts({ contracts }: NaiveState, { authority = [], contracts: covering = [] }: NaiveBody): void {
  for (const contract of contracts) {
    if (!authority.includes(contract.id)) continue;
    contract.uses += 1;
    const index = covering.find(({ intent_contract_id }) => intent_contract_id === contract.id)?.step;
    const step = index === undefined ? undefined : contract.steps[index];
    if (step !== undefined) step.calls += 1;
  }
}
