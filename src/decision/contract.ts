import { fromJson, type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConditionsSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { Checks } from "../policy/checks.ts";
import { compilePlanStep, type PlanStepResult } from "../policy/compile/plan-step.ts";
import { toolKey } from "../policy/names.ts";
import type { EvaluationContext, PlanState } from "../policy/types.ts";
import { CompileBudget } from "../policy/violations.ts";
import type { AuthorityItem } from "../state/authority.ts";
import { isInForce, itemStatus } from "../state/authority-status.ts";
import type { SealedPlanStep } from "../state/control-changes.ts";
import type { Policies } from "../state/policies.ts";
import type { CoveringContract, DecisionReason } from "../state/types.ts";
import type { WorkspaceState } from "../state/workspace.ts";
import { type Attempt, type Refusal, refusal } from "./verdict.ts";

/** Result of checking the intent contracts that cover an action. */
export interface ContractCheck {
  readonly kind: "covered";
  readonly planState: PlanState;
  readonly contracts: readonly CoveringContract[];
  /** Contracts that admit the action. */
  readonly admitting: readonly AuthorityItem[];
  /** Reasons why a person is asked: contracts that do not admit the action, and escalate what is outside. */
  readonly escalating: readonly DecisionReason[];
}

/** Builds the context that conditions of steps read. */
type ContextOf = () => EvaluationContext;

/** Operators whose literals are values that an argument may have. */
const NAMING = new Set(["==", "in", "contains", "contains_any", "contains_all", "subset_of", "starts_with"]);

/** Lists the values that the conditions of the contracts which cover an action name: its own, and that of its session. */
export function literalsOf(attempt: Attempt): readonly JsonValue[] {
  const { state, action, nowMs } = attempt;
  const { intentContractId, sessionId } = action;
  const named = intentContractId === undefined ? undefined : state.authority.get(intentContractId);
  const ofSession = sessionId === undefined ? undefined : state.authority.contractOf(sessionId);
  const contracts = new Set([isOwn(attempt, named) ? named : undefined, ofSession]);
  return [...contracts].flatMap((contract) =>
    contract !== undefined && isInForce(contract, nowMs) && isTrusted(state, contract)
      ? (contract.sealed.steps ?? []).flatMap(literalsOfStep)
      : [],
  );
}

/** Tests whether the values in a contract are the agent's task: not if the agent made it and operators alone may say what it was asked. */
const isTrusted = ({ settings }: WorkspaceState, { sealed }: AuthorityItem): boolean =>
  settings.prompt_from !== "operator" || sealed.by_agent !== true;

function literalsOfStep({ conditions }: SealedPlanStep): readonly JsonValue[] {
  if (conditions === undefined) return [];
  return fromJson(ConditionsSchema, conditions).rules.flatMap(({ operator, value }) => {
    if (value === undefined || !NAMING.has(operator)) return [];
    const literal = toJson(ValueSchema, value) as JsonValue;
    return Array.isArray(literal) ? literal : [literal];
  });
}

/** Checks the intent contract that an action names, and the one that covers its session. The first refusal ends it. */
export function checkContracts(
  attempt: Attempt,
  contextOf: ContextOf,
): ContractCheck | ({ readonly kind: "refused" } & Refusal) {
  const { state, action } = attempt;
  const { intentContractId, sessionId } = action;
  const named = intentContractId === undefined ? undefined : state.authority.get(intentContractId);
  if (intentContractId !== undefined && !isOwn(attempt, named)) {
    const message = `intent contract \`${intentContractId}\` does not exist for this agent, or has ended`;
    return refusal("intent_contract", "INTENT_CONTRACT_UNKNOWN", message);
  }
  const ofSession = sessionId === undefined ? undefined : state.authority.contractOf(sessionId);
  const contracts: CoveringContract[] = [];
  const admitting: AuthorityItem[] = [];
  const escalating: DecisionReason[] = [];
  for (const contract of new Set([named, ofSession])) {
    if (contract === undefined) continue;
    const checked = checkContract(attempt, contract, contextOf);
    if (checked.kind === "refused") return checked;
    const { isInside, step, reason } = checked;
    contracts.push({ contractId: contract.sealed.id, isInside, step, isByAgent: contract.sealed.by_agent === true });
    if (isInside) admitting.push(contract);
    if (reason !== undefined && contract.sealed.outside === "escalate") escalating.push(reason);
  }
  return { kind: "covered", planState: planStateOf(contracts), contracts, admitting, escalating };
}

/** Returns the place of an action beside the plans of operators. An agent's own plan is no reason for a rule to allow more. */
function planStateOf(contracts: readonly CoveringContract[]): PlanState {
  const planned = contracts.filter(({ isByAgent }) => !isByAgent);
  if (planned.length === 0) return "none";
  return planned.every(({ isInside }) => isInside) ? "inside" : "outside";
}

const isOwn = ({ action }: Attempt, contract: AuthorityItem | undefined): boolean =>
  contract?.sealed.kind === "intent_contract" && contract.sealed.agent_id === action.agentId;

/** A contract's answer to an action that it does not refuse. */
interface Answer {
  readonly kind: "answered";
  readonly isInside: boolean;
  /** Index of the step that admits the action. */
  readonly step: number | undefined;
  /** Reason why the action is outside. */
  readonly reason: DecisionReason | undefined;
}

function checkContract(
  attempt: Attempt,
  contract: AuthorityItem,
  contextOf: ContextOf,
): Answer | ({ readonly kind: "refused" } & Refusal) {
  const { nowMs } = attempt;
  const name = `intent contract \`${contract.sealed.id}\``;
  if (!isInForce(contract, nowMs)) {
    const why = itemStatus(contract, nowMs) === "used_up" ? "is used up" : "has expired";
    return refusal("intent_contract", "INTENT_CONTRACT_EXPIRED", `${name} ${why}`);
  }
  const found = findStep(attempt, contract, contextOf);
  if (found.kind === "stale") return refusal("intent_contract", "PLAN_STEP_STALE", `${found.message} of ${name}`);
  if (found.kind === "admitted") return { kind: "answered", isInside: true, step: found.step, reason: undefined };
  const outside = refusal("intent_contract", "OUTSIDE_CONTRACT", `${found.what} is outside ${name}`);
  const { outside: decision = "block" } = contract.sealed;
  if (decision === "block") return outside;
  return { kind: "answered", isInside: false, step: undefined, reason: outside.reason };
}

type Found =
  | { readonly kind: "admitted"; readonly step: number | undefined }
  | { readonly kind: "outside"; readonly what: string }
  | { readonly kind: "stale"; readonly message: string };

/** Tests an action type and a tool against a contract's lists, then finds the first step of its plan that admits the call. */
function findStep({ state, action, toolName }: Attempt, contract: AuthorityItem, contextOf: ContextOf): Found {
  const { actionType, normalisedType } = action;
  const { tools = [], steps = [] } = contract.sealed;
  if (contract.admits?.matches(normalisedType) === false) return { kind: "outside", what: `\`${actionType}\`` };
  const what = toolName === undefined ? "a call without a tool" : `tool \`${toolName}\``;
  const key = toolName === undefined ? undefined : toolKey(toolName);
  if (tools.length > 0 && !tools.some((tool) => toolKey(tool) === key)) return { kind: "outside", what };
  if (steps.length === 0) return { kind: "admitted", step: undefined };
  const planned = steps.flatMap((step, index) => (toolKey(step.tool) === key ? [index] : []));
  if (planned.length === 0) return { kind: "outside", what };
  const results = compiledSteps(state.policies, contract);
  // A budget of its own, so that a plan does not change what the mandates can check.
  const context = { ...contextOf(), checks: new Checks(undefined, state.lists) };
  for (const index of planned) {
    const result = results[index] as PlanStepResult;
    if (result.kind === "invalid")
      return {
        kind: "stale",
        message: `step ${index + 1} no longer compiles: ${result.violations[0]?.message}; it is part`,
      };
    if (hasCalls(contract, steps[index] as SealedPlanStep, index) && result.step.admits(context))
      return { kind: "admitted", step: index };
  }
  const isUsedUp = planned.every((index) => !hasCalls(contract, steps[index] as SealedPlanStep, index));
  return { kind: "outside", what: isUsedUp ? `another call of ${what}` : `this call of ${what}` };
}

const hasCalls = ({ stepCalls }: AuthorityItem, { max_calls }: SealedPlanStep, index: number): boolean =>
  max_calls === undefined || (stepCalls[index] ?? 0) < max_calls;

/** Compiled steps of contracts, with the revision of tools and lists that they were compiled against. */
const compiled = new WeakMap<
  AuthorityItem,
  { readonly revision: number; readonly results: readonly PlanStepResult[] }
>();

function compiledSteps(policies: Policies, contract: AuthorityItem): readonly PlanStepResult[] {
  const { revision, lookup } = policies;
  const known = compiled.get(contract);
  if (known?.revision === revision) return known.results;
  const budget = new CompileBudget();
  const results = (contract.sealed.steps ?? []).map((step, index) => compilePlanStep(step, index, lookup, budget));
  compiled.set(contract, { revision, results });
  return results;
}
