import type { JsonObject } from "@bufbuild/protobuf";
import type { MayQuestion, WhoMayQuestion } from "../../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { doInTurns } from "../../async/work.ts";
import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import type { AgentState } from "../../state/agents.ts";
import type { Action } from "../../state/types.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { DryRunParts, DryRuns } from "../dry-runs.ts";
import { type Answer, answerFrom, type Findings } from "./answer.ts";
import { changedAnswer } from "./changed.ts";
import { limitsAnswer } from "./limits.ts";
import { mayAnswer } from "./may.ts";
import { neverFireAnswer } from "./never-fire.ts";
import { type Asked, aboutText } from "./question.ts";
import type { QuestionReader } from "./question-reader.ts";
import { shadowedAnswer } from "./shadowed.ts";
import { findAgent, findTool } from "./subjects.ts";
import { whoMayAnswer } from "./who-may.ts";
import { whyAnswer } from "./why.ts";

/** Action that a question asks about. */
export interface AskedAction {
  readonly agentId: string;
  readonly actionType: string;
  readonly tool: string | undefined;
  readonly arguments: JsonObject | undefined;
}

/** A question with its caller. */
export interface AskQuery {
  readonly workspaceId: string;
  /** Agent that asks; null for a caller that is none. */
  readonly agentId: string | null;
  /** In fields, or as text. */
  readonly question: Asked | string;
  readonly signal: AbortSignal;
  /** Builds the action that an intercept of the caller would ask to decide. Throws INVALID_FIELD as the intercept would. */
  readonly actionOf: (asked: AskedAction) => Action;
}

/** Parts that answers come from. */
export interface AskParts extends Pick<DryRunParts, "logs" | "reads"> {
  readonly dryRuns: DryRuns;
  readonly questions: QuestionReader;
}

/**
 * Answers a question about the policy. Writes nothing. Rejects with INVALID_FIELD, AGENT_NOT_FOUND, TOOL_NOT_FOUND,
 * MANDATE_NOT_FOUND and DECISION_NOT_FOUND for a field of the question, with OVERLOADED and STORE_UNAVAILABLE. For a text it
 * also rejects as `QuestionReader` does, and faults of the question that was read name the field `question`.
 */
export async function ask(parts: AskParts, query: AskQuery): Promise<Answer> {
  const { question } = query;
  const log = await parts.logs.of(query.workspaceId);
  const state = await log.caughtUp();
  if (typeof question !== "string") return answerFrom(question, await findingsFor(question, state, parts, query));
  const asked = await parts.questions.read(question, state, query);
  try {
    return answerFrom(asked, await findingsFor(asked, await log.caughtUp(), parts, query));
  } catch (error) {
    throw aboutText(asked, error);
  }
}

async function findingsFor(
  asked: Asked,
  state: WorkspaceState,
  { dryRuns, logs, reads }: AskParts,
  query: AskQuery,
): Promise<Findings> {
  const { workspaceId, agentId, signal } = query;
  const asker = { workspaceId, agentId, signal };
  const question = (...actions: readonly Action[]) => ({ ...asker, actions, drafts: [], lists: [], atMs: undefined });
  switch (asked.case) {
    case "may": {
      const agent = await agentOf(state, "may.agent", asked.value.agent);
      const action = actionFor("may", asked.value, state, query, agent.agentId, asked.value.arguments);
      return mayAnswer(dryRuns, question(action), agent);
    }
    case "limits":
      return limitsAnswer(dryRuns, question(), await agentOf(state, "limits.agent", asked.value.agent));
    case "why":
      return whyAnswer(reads, workspaceId, asked.value);
    case "changed":
      return changedAnswer(reads, state, asked.value);
    case "whoMay":
      return whoMayAnswer(dryRuns, question(...anyAction(asked.value, state, query)));
    case "neverFire": {
      const { days = DEFAULT_DAYS } = asked.value;
      return neverFireAnswer({ reads, state, nowMs: logs.clock.now(), days, signal });
    }
    case "shadowed":
      return doInTurns(shadowedAnswer([...state.policies.policySet().mandates()], state.policies.lookup));
  }
}

/** Days that a question about rules which never fire looks back. */
const DEFAULT_DAYS = 30;

const agentOf = (state: WorkspaceState, field: string, name: string): Promise<AgentState> =>
  doInTurns(findAgent(state, field, name));

/** The call that a question is about. */
type AskedCall = Pick<MayQuestion | WhoMayQuestion, "tool" | "actionType">;

/** Builds the action as one of the first active agent; empty if no agent is active. */
function anyAction(asked: AskedCall, state: WorkspaceState, query: AskQuery): readonly Action[] {
  for (const { agentId, status } of state.agents.values()) {
    if (status === "active") return [actionFor("who_may", asked, state, query, agentId, undefined)];
  }
  toolAndType("who_may", asked, state);
  return [];
}

/** Builds the action of a question, which stands in the field `form`. */
function actionFor(
  form: "may" | "who_may",
  asked: AskedCall,
  state: WorkspaceState,
  { actionOf }: AskQuery,
  agentId: string,
  args: JsonObject | undefined,
): Action {
  const { tool, actionType } = toolAndType(form, asked, state);
  try {
    return actionOf({ agentId, actionType, tool, arguments: args });
  } catch (error) {
    throw aboutForm(form, asked, error);
  }
}

/** Returns the tool that a question names, as it was registered, and the action type, which is the tool's name by default. */
function toolAndType(form: "may" | "who_may", { tool, actionType }: AskedCall, state: WorkspaceState) {
  const named = tool === undefined ? undefined : findTool(state, `${form}.tool`, tool);
  const type = actionType ?? named;
  if (type === undefined) throw invalidField(form, "must have `tool` or `action_type`");
  return { tool: named, actionType: type };
}

/** Moves a violation of the action's fields to those of the question that they came from. */
function aboutForm(form: "may" | "who_may", { actionType }: AskedCall, error: unknown): unknown {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.INVALID_FIELD) return error;
  const [violation] = error.violations;
  const fields: Readonly<Record<string, string>> = {
    action_type: actionType === undefined ? "tool" : "action_type",
    tool: "tool",
    "metadata.arguments": "arguments",
  };
  const field = fields[violation?.field ?? ""];
  return field === undefined ? error : invalidField(`${form}.${field}`, violation?.description ?? "", error);
}
