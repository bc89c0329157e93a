import { ControlPlaneError, ErrorReason, invalidField } from "../../errors.ts";
import type { AgentState } from "../../state/agents.ts";
import type { Action } from "../../state/types.ts";
import type { WorkspaceState } from "../../state/workspace.ts";
import type { DryRunParts, DryRuns } from "../dry-runs.ts";
import { doInTurns } from "../work.ts";
import { type Answer, answerFrom, type Findings } from "./answer.ts";
import { changedAnswer } from "./changed.ts";
import { limitsAnswer } from "./limits.ts";
import { mayAnswer } from "./may.ts";
import { neverFireAnswer } from "./never-fire.ts";
import { type AskedQuestion, readQuestion } from "./question.ts";
import { shadowedAnswer } from "./shadowed.ts";
import { findAgent, findTool } from "./subjects.ts";
import { whoMayAnswer } from "./who-may.ts";
import { whyAnswer } from "./why.ts";

/** What is attempted in a question. */
export interface AskedAction {
  readonly agentId: string;
  readonly actionType: string;
  readonly tool: string | undefined;
  /** JSON text of the arguments; undefined without any. */
  readonly argumentsText: string | undefined;
}

/** A question with its caller. */
export interface AskQuery {
  readonly workspaceId: string;
  readonly question: string;
  readonly signal: AbortSignal;
  /** Makes the action that an intercept of the caller would ask to decide. Throws INVALID_FIELD as that would. */
  readonly actionOf: (asked: AskedAction) => Action;
}

/** Parts that answers come from. */
export interface AskParts extends Pick<DryRunParts, "logs" | "reads"> {
  readonly dryRuns: DryRuns;
}

type Named = Extract<AskedQuestion, { readonly actionType: string }>;

/**
 * Answers a question about the policy. Writes nothing. Rejects with QUESTION_NOT_UNDERSTOOD, INVALID_FIELD, AGENT_NOT_FOUND,
 * TOOL_NOT_FOUND, MANDATE_NOT_FOUND and DECISION_NOT_FOUND for the field `question`, with OVERLOADED and STORE_UNAVAILABLE.
 */
export async function ask(parts: AskParts, query: AskQuery): Promise<Answer> {
  const asked = readQuestion(query.question);
  const log = await parts.logs.of(query.workspaceId);
  const state = await log.caughtUp();
  return answerFrom(asked.form, await findingsFor(asked, state, parts, query));
}

async function findingsFor(
  asked: AskedQuestion,
  state: WorkspaceState,
  { dryRuns, logs, reads }: AskParts,
  query: AskQuery,
): Promise<Findings> {
  const { workspaceId, signal } = query;
  const question = (...actions: readonly Action[]) => ({ workspaceId, actions, drafts: [], atMs: undefined, signal });
  switch (asked.form) {
    case "may": {
      const agent = await agentOf(state, asked.agent);
      const action = actionFor(asked, state, query, agent.agentId, asked.args);
      return mayAnswer(dryRuns, question(action), agent);
    }
    case "limits":
      return limitsAnswer(dryRuns, question(), await agentOf(state, asked.agent));
    case "why":
      return whyAnswer(reads, workspaceId, asked.decisionId, asked.supposed);
    case "changed":
      return changedAnswer(reads, state, asked.mandate, asked.versions);
    case "who_may":
      return whoMayAnswer(dryRuns, question(...anyAction(asked, state, query)));
    case "never_fire":
      return neverFireAnswer({ reads, state, nowMs: logs.clock.now(), days: asked.days, signal });
    case "shadowed":
      return doInTurns(shadowedAnswer([...state.policies.policySet().mandates()], state.policies.lookup));
  }
}

const agentOf = (state: WorkspaceState, name: string): Promise<AgentState> => doInTurns(findAgent(state, name));

/** Makes the action as one of the first active agent; none without such an agent. */
function anyAction(asked: Named, state: WorkspaceState, query: AskQuery): readonly Action[] {
  for (const { agentId, status } of state.agents.values()) {
    if (status === "active") return [actionFor(asked, state, query, agentId, undefined)];
  }
  namedTool(asked, state);
  return [];
}

/** Makes the action of a question, with the tool that it names. */
function actionFor(
  asked: Named,
  state: WorkspaceState,
  { actionOf }: AskQuery,
  agentId: string,
  argumentsText: string | undefined,
): Action {
  const named = namedTool(asked, state);
  const type = asked.namesTool ? (named ?? asked.actionType) : asked.actionType;
  try {
    return actionOf({ agentId, actionType: type, tool: named, argumentsText });
  } catch (error) {
    throw aboutQuestion(error);
  }
}

/** Finds the tool that a question names; undefined if it names none. Throws TOOL_NOT_FOUND. */
function namedTool({ actionType, tool, namesTool }: Named, state: WorkspaceState): string | undefined {
  const name = namesTool ? actionType : tool;
  return name === undefined ? undefined : findTool(state, name);
}

const PARTS: Readonly<Record<string, string>> = {
  action_type: "names an action type that",
  tool: "names a tool that",
  "metadata.arguments": "has arguments that cannot be used: the text",
};

/** Moves a violation of the action's fields to the question that they came from. */
function aboutQuestion(error: unknown): unknown {
  if (!(error instanceof ControlPlaneError) || error.reason !== ErrorReason.INVALID_FIELD) return error;
  const [violation] = error.violations;
  const part = PARTS[violation?.field ?? ""];
  return part === undefined ? error : invalidField("question", `${part} ${violation?.description}`, error);
}
