import { create, type JsonObject, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { timestampMs, ValueSchema } from "@bufbuild/protobuf/wkt";
import {
  type EpisodeContract as ContractMessage,
  type Episode as EpisodeMessage,
  EscalatedSteps,
  type ReplayRequest,
  type ReplayResponseSchema,
  type EpisodeStep as StepMessage,
  StepRole,
  type ToolDraft as ToolMessage,
} from "../../gen/agentcontrol/v1/dry_run_service_pb.js";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ToolSource } from "../../gen/agentcontrol/v1/tool_service_pb.js";
import type { Episode, EpisodeContract, Escalated, StepRole as StepRoleWord } from "../dryrun/episodes/episode.ts";
import { REPLAYED_AGENT, REPLAYED_SESSION } from "../dryrun/episodes/own-workspace.ts";
import type { ReplayEvent } from "../dryrun/episodes/replay-episodes.ts";
import { errorBelow } from "../dryrun/place-error.ts";
import { invalidField } from "../errors.ts";
import type { OneToolDraft } from "../registry/tools.ts";
import type { Action } from "../state/types.ts";
import { actionFrom } from "./action.ts";
import { sealedStepFrom } from "./authority-service.ts";
import type { Caller } from "./context.ts";
import { decisionMapping, decisionPathMapping, outsideContractMapping } from "./enum-mapping.ts";
import { reasonMessageFrom } from "./records.ts";

const ROLES: Readonly<Partial<Record<StepRole, StepRoleWord>>> = {
  [StepRole.EFFECTIVE]: "effective",
  [StepRole.STAGE]: "stage",
};

/** Converts the episodes of a request. Throws INVALID_FIELD with the place of the step. */
export function episodesFrom({ episodes, agentId = REPLAYED_AGENT }: ReplayRequest, caller: Caller): Episode[] {
  return episodes.map((episode, index) => episodeFrom(episode, agentId, caller, `episodes[${index}]`));
}

function episodeFrom(
  { id, prompt, contract, steps, labels }: EpisodeMessage,
  agentId: string,
  caller: Caller,
  path: string,
): Episode {
  const roles = new Map<number, StepRoleWord>();
  for (const [index, { step, role }] of labels.entries()) {
    const named = steps[step];
    if (named === undefined || named.prompt !== undefined)
      throw invalidField(`${path}.labels[${index}].step`, "must be the index of a call in `steps`, from 0");
    roles.set(step, ROLES[role] ?? "stage");
  }
  return {
    id,
    prompt,
    contract: contract && contractFrom(contract, `${path}.contract`),
    steps: steps.map((step, index) => {
      const atMs = step.at && timestampMs(step.at);
      if (step.prompt !== undefined) {
        assertPromptAlone(step, `${path}.steps[${index}]`);
        return { kind: "prompt", index, text: step.prompt, isCut: step.isCut, atMs };
      }
      const action = stepAction(step, agentId, caller, `${path}.steps[${index}]`);
      const { isError, isCut, parallel: isParallel, result } = step;
      const text = result && toJson(ValueSchema, result);
      return {
        kind: "call",
        index,
        action,
        // A text is as the tool returned it; anything else as its JSON.
        result: typeof text === "string" || text === undefined ? text : JSON.stringify(text),
        isError,
        isCut,
        isParallel,
        role: roles.get(index),
        atMs,
      };
    }),
  };
}

function assertPromptAlone(
  { tool, arguments: args, actionType, actionContent, result }: StepMessage,
  path: string,
): void {
  const isAlone =
    tool === "" && args === undefined && actionType === undefined && actionContent === "" && result === undefined;
  if (!isAlone)
    throw invalidField(`${path}.prompt`, "stands alone: a step with it has nothing else but `at` and `is_cut`");
}

function stepAction(step: StepMessage, agentId: string, caller: Caller, path: string): Action {
  const { tool, actionType = tool, actionContent, arguments: args } = step;
  if (tool.trim() === "") throw invalidField(`${path}.tool`, "must name a tool, unless the step is a prompt");
  const metadata = args === undefined ? {} : { metadata: { arguments: args } };
  // The session is the episode's own, whatever the caller's agents have.
  const fields = { agentId, actionType, actionContent, tool, sessionId: REPLAYED_SESSION, ...metadata };
  try {
    return actionFrom(create(InterceptRequestSchema, fields as never), caller);
  } catch (error) {
    throw errorBelow(path, error);
  }
}

function contractFrom(message: ContractMessage, path: string): EpisodeContract {
  const { goal, allowedActionTypes: actionTypes, allowedTools, maxActions, steps, outside } = message;
  if (actionTypes.length === 0 && steps.length === 0)
    throw invalidField(`${path}.allowed_action_types`, "must name at least one action type, unless it has `steps`");
  return {
    goal,
    actionTypes,
    tools: allowedTools.map((tool) => tool.trim()),
    maxActions: maxActions === undefined ? undefined : Number(maxActions),
    steps: steps.map(sealedStepFrom),
    outside: outsideContractMapping.fromProto(outside) ?? "block",
  };
}

/** Converts a tool of a request. */
export const toolDraftFrom = ({ name, inputSchema = {}, provenance }: ToolMessage): OneToolDraft => ({
  name,
  description: undefined,
  inputSchema: inputSchema as JsonObject,
  source: ToolSource.API,
  declared: provenance,
});

/** Converts the answer to steps about which a person is asked. */
export const escalatedFrom = (escalated: EscalatedSteps): Escalated =>
  escalated === EscalatedSteps.SKIP ? "skip" : "run";

/** Converts a message of a replay. */
export function replayMessageFrom(event: ReplayEvent): MessageInitShape<typeof ReplayResponseSchema> {
  if (event.kind === "summary") {
    const { decisions, ...summary } = event.summary;
    const { allow: allowed, block: blocked, escalate: escalated } = decisions;
    return { summary: { ...summary, allowed, blocked, escalated } };
  }
  return {
    episode: {
      id: event.id,
      steps: event.calls.map(({ index: step, ran, decision, path, policyName, reasons }) => ({
        step,
        ran,
        decision: decisionMapping.toProto[decision],
        decisionPath: decisionPathMapping.toProto[path],
        ...(policyName === undefined ? {} : { policyName }),
        reasons: reasons.map(reasonMessageFrom),
      })),
    },
  };
}
