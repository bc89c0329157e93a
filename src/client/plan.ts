import { fromJson, type JsonValue, type MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import {
  AuthorityService,
  OutsideContract,
  type PlanStepSchema,
} from "../../gen/agentcontrol/v1/authority_service_pb.js";
import { ConditionsSchema } from "../../gen/agentcontrol/v1/mandate_service_pb.js";
import { type ControlPlane, DEFAULT_INTERCEPT_TIMEOUT_MS } from "./control-plane.ts";
import type { Guarded } from "./guard-options.ts";
import { assertCount } from "./options.ts";
import { requestErrorFrom } from "./request-error.ts";

/** Condition on an argument of a step. */
export interface PlanCondition {
  /** Path of the argument: `to`, `lines[].amount`. */
  readonly field: string;
  /** Operator of an `argument` rule: `==`, `<=`, `in`. */
  readonly operator: string;
  /** Value to compare with. MUST be JSON. */
  readonly value?: unknown;
}

/** Call that is part of a plan. */
export interface PlannedStep {
  /** The tool, as guarded functions name it in `tool`. */
  readonly tool: string;
  /** Conditions that all hold on the arguments of the call; they need a registered tool. Default: any arguments. */
  readonly conditions?: readonly PlanCondition[] | undefined;
  /** Maximum number of allowed calls. Default: no limit. */
  readonly maxCalls?: number | undefined;
}

/** Options of a plan. */
export interface PlanOptions {
  /** Goal of the plan, which people read. */
  readonly goal: string;
  /** The calls that the goal takes, 1 to 50. Each allowed call uses the first step that admits it. */
  readonly steps: readonly PlannedStep[];
  /** The acting agent. Default: the control plane's `agentId`. */
  readonly agentId?: string | undefined;
  /** Session of the agent that the plan is for. Default: a new one, which `end` ends. */
  readonly sessionId?: string | undefined;
  /** Seconds until a new session expires. Default: a day. */
  readonly ttlSeconds?: number | undefined;
  /** Decision on any other call: `escalate` asks a person. Default `block`. */
  readonly outside?: "block" | "escalate" | undefined;
  /** Ends the calls that make the plan. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit of each of these calls in milliseconds. Default 10,000. */
  readonly timeoutMs?: number | undefined;
}

/** A plan of an agent: a session whose calls are inside of it or refused. */
export interface Plan {
  readonly sessionId: string;
  readonly intentContractId: string;
  /** Returns a guarded function whose calls are part of the plan. */
  within<Args extends unknown[], Result>(call: Guarded<Args, Result>): Guarded<Args, Result>;
  /** Ends the session, unless it was there before the plan: no further call is allowed. Ending again changes nothing. */
  end(): Promise<void>;
}

/**
 * Says which calls a goal takes, before a model reads what others wrote: any other call in the plan's session is refused, or asks a
 * person. Begins a session unless one is given. Rejects with a `ControlPlaneRequestError`, also for steps that do not compile
 * (`PLAN_INVALID`); no session of its own is left then.
 */
export async function createPlan(controlPlane: ControlPlane, options: PlanOptions): Promise<Plan> {
  const {
    goal,
    signal,
    ttlSeconds,
    timeoutMs = DEFAULT_INTERCEPT_TIMEOUT_MS,
    agentId = controlPlane.agentId,
  } = options;
  if (agentId === undefined) throw new TypeError("`agentId` is missing; give it here, or to the control plane");
  const ttl = ttlSeconds === undefined ? {} : { ttlSeconds: countFrom("ttlSeconds", ttlSeconds) };
  const client = controlPlane.client(AuthorityService);
  const limits = { timeoutMs, ...(signal !== undefined && { signal }) };
  const steps = options.steps.map(stepFrom);
  try {
    const begun =
      options.sessionId === undefined
        ? await client.createSession({ agentId, purpose: goal.slice(0, MAX_PURPOSE), ...ttl }, limits)
        : undefined;
    const sessionId = options.sessionId ?? begun?.session?.sessionId ?? "";
    const end = async (): Promise<void> => {
      if (begun !== undefined) await endSession(client, sessionId, timeoutMs);
    };
    const outside = options.outside === "escalate" ? OutsideContract.ESCALATE : OutsideContract.BLOCK;
    const contract = { agentId, sessionId, goal, steps, outside };
    const { intentContract } = await client.createIntentContract(contract, limits).catch(async (error: unknown) => {
      await end().catch(() => undefined);
      throw error;
    });
    return {
      sessionId,
      intentContractId: intentContract?.intentContractId ?? "",
      within: (call) => call.with({ sessionId }),
      end,
    };
  } catch (error) {
    signal?.throwIfAborted();
    throw requestErrorFrom(error);
  }
}

/** Maximum characters of a session's purpose. */
const MAX_PURPOSE = 500;

function countFrom(name: string, value: number): bigint {
  assertCount(name, value);
  return BigInt(value);
}

function stepFrom({ tool, conditions, maxCalls }: PlannedStep): MessageInitShape<typeof PlanStepSchema> {
  return {
    tool,
    ...(maxCalls !== undefined && { maxCalls: countFrom("maxCalls", maxCalls) }),
    ...(conditions !== undefined && { conditions: conditionsFrom(tool, conditions) }),
  };
}

function conditionsFrom(tool: string, conditions: readonly PlanCondition[]) {
  const rules = JSON.parse(JSON.stringify(conditions)) as JsonValue;
  try {
    return fromJson(ConditionsSchema, { rules });
  } catch (error) {
    const message = `conditions of the step \`${tool}\` must each have \`field\`, \`operator\` and \`value\`: ${(error as Error).message}`;
    throw new TypeError(message, { cause: error });
  }
}

async function endSession(
  client: Client<typeof AuthorityService>,
  sessionId: string,
  timeoutMs: number,
): Promise<void> {
  try {
    await client.endSession({ sessionId }, { timeoutMs });
  } catch (error) {
    throw requestErrorFrom(error);
  }
}
