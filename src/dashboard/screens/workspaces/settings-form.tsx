import { fromJson, type MessageInitShape } from "@bufbuild/protobuf";
import { ListValueSchema } from "@bufbuild/protobuf/wkt";
import { useState } from "react";
import {
  AdminService,
  OutcomeTracking,
  PromptSource,
  type UpdateWorkspaceRequestSchema,
  type Workspace,
} from "../../../../gen/agentcontrol/v1/admin_service_pb.js";
import { Decision } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { AreaField, DurationField, FlagField, Form, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { toldProposal } from "../../kit/proposed.ts";
import { useAnnounce } from "../../kit/toast.tsx";
import { useChange } from "../../kit/use-change.ts";

const { getWorkspace, listWorkspaces, updateWorkspace } = AdminService.method;

/** Decisions to choose from. */
export const DECISIONS = [
  { value: Decision.ALLOW, title: "Allow" },
  { value: Decision.ESCALATE, title: "Escalate to a person" },
  { value: Decision.BLOCK, title: "Block" },
];
const UNKNOWN_TOOLS = [
  { value: Decision.ALLOW, title: "Leave it to the mandates" },
  { value: Decision.ESCALATE, title: "Escalate to a person" },
  { value: Decision.BLOCK, title: "Block" },
];
/** Allowed actions whose outcomes are tracked, to choose from. */
export const OUTCOMES = [
  { value: OutcomeTracking.TRACKED, title: "Claimed actions" },
  { value: OutcomeTracking.ALL, title: "All allowed actions" },
];

/** Callers who may say what an agent was asked, to choose from. */
export const PROMPT_SOURCES = [
  { value: PromptSource.AGENT, title: "The agent's own key as well" },
  { value: PromptSource.OPERATOR, title: "Operators alone" },
];

const MAX_INT32 = 2 ** 31 - 1;
/** Clamps a number to an int32, from -1 to its maximum; the service refuses both at their field. */
const int32 = (value: number | undefined): number => Math.max(-1, Math.min(value ?? 0, MAX_INT32));

type Request = MessageInitShape<typeof UpdateWorkspaceRequestSchema>;

/** Returns the changed settings alone, so that nothing else is overwritten; undefined if all are unchanged. */
function changesOf(workspace: Workspace, values: FormValues): Request | undefined {
  const { workspaceId } = workspace;
  const changes: Request = {};
  const wanted = {
    name: values.text("name"),
    defaultDecision: values.number("default_decision") as Decision,
    unknownTools: values.number("unknown_tools") as Decision,
    initialTrust: values.number("initial_trust") ?? Number.NaN,
    escalationTtlSeconds: int32(values.seconds("escalation_ttl_seconds")),
    approvalTtlSeconds: int32(values.seconds("approval_ttl_seconds")),
    maxPendingEscalationsPerAgent: int32(values.integer("max_pending_escalations_per_agent")),
    keyTtlDays: int32(values.integer("key_ttl_days")),
    rateLimitKey: values.text("rate_limit_key"),
    rateLimitWorkspace: values.text("rate_limit_workspace"),
    outcomes: values.number("outcomes") as OutcomeTracking,
    outcomeTimeoutSeconds: int32(values.seconds("outcome_timeout_seconds")),
    mandateReviews: int32(values.integer("mandate_reviews")),
    promptFrom: values.number("prompt_from") as PromptSource,
    fourEyes: values.flag("four_eyes"),
  };
  for (const [name, value] of Object.entries(wanted)) {
    if (value !== workspace[name as keyof typeof wanted]) Object.assign(changes, { [name]: value });
  }
  const ignores = values.lines("approval_ignores");
  if (ignores.join("\n") !== workspace.approvalIgnores.join("\n")) {
    Object.assign(changes, { approvalIgnores: fromJson(ListValueSchema, ignores) });
  }
  return Object.keys(changes).length === 0 ? undefined : { ...changes, workspaceId };
}

/** Settings of the reader's own workspace. They apply from the next decision on. */
export function SettingsForm({ workspace }: { readonly workspace: Workspace }) {
  // Settings at the time of filling the form: a change by another admin meanwhile is not reverted.
  const [base, setBase] = useState(workspace);
  const announce = useAnnounce();
  const { mutate, isPending, error } = useChange((call, changes: Request) => call(updateWorkspace, changes), {
    refreshes: [getWorkspace, listWorkspaces],
    done: (answer) => toldProposal(answer) ?? "Saved. The settings are in force for the next decision.",
    onDone: ({ workspace: changed = base }) => setBase(changed),
  });
  const save = (values: FormValues): void => {
    const changes = changesOf(base, values);
    if (changes === undefined) announce({ tone: "plain", text: "Nothing was changed." });
    else mutate(changes);
  };
  return (
    <Form action="save" submit="Save the settings" isBusy={isPending} error={error} onSubmit={save}>
      <TextField name="name" label="Name" defaultValue={workspace.name} />
      <div className="workspace-settings">
        <SelectField
          name="default_decision"
          label="When no mandate matches"
          defaultValue={workspace.defaultDecision}
          options={DECISIONS}
        />
        <SelectField
          name="unknown_tools"
          label="A tool that is not registered"
          defaultValue={workspace.unknownTools}
          options={UNKNOWN_TOOLS}
        />
        <NumberField
          name="initial_trust"
          label="Trust of a new agent"
          hint="0 to 100 in steps of 0.1."
          defaultValue={workspace.initialTrust}
        />
        <NumberField
          name="max_pending_escalations_per_agent"
          label="Pending escalations of one agent"
          hint="1 to 1,000; a further one is blocked."
          defaultValue={workspace.maxPendingEscalationsPerAgent}
        />
        <DurationField
          name="escalation_ttl_seconds"
          label="Escalations expire after"
          hint="They are then rejected. A rule may set its own."
          defaultSeconds={workspace.escalationTtlSeconds}
        />
        <DurationField
          name="approval_ttl_seconds"
          label="Approvals are usable for"
          defaultSeconds={workspace.approvalTtlSeconds}
        />
        <NumberField
          name="key_ttl_days"
          label="Days until new keys expire"
          hint="1 to 3,650, also the most that a new key may ask for; 0: they expire only on request."
          defaultValue={workspace.keyTtlDays}
        />
        <TextField
          name="rate_limit_key"
          label="Calls per second of one key"
          hint="Such as 100, or 100:500 for 500 at once; empty: no limit. Each process of the service counts alone."
          defaultValue={workspace.rateLimitKey}
        />
        <TextField
          name="rate_limit_workspace"
          label="Calls per second of all keys together"
          hint="In the same form. People at the dashboard do not count."
          defaultValue={workspace.rateLimitWorkspace}
        />
        <SelectField
          name="outcomes"
          label="Outcomes are tracked of"
          defaultValue={workspace.outcomes}
          options={OUTCOMES}
        />
        <DurationField
          name="outcome_timeout_seconds"
          label="Outcomes are unknown after"
          hint="Unless somebody reports how the action ended."
          defaultSeconds={workspace.outcomeTimeoutSeconds}
        />
        <TextField
          name="mandate_reviews"
          label="Others who accept a change of mandates or lists"
          hint="0 to 10. With 0 a change is in force at once; lowering it waits for others, too."
          defaultValue={String(workspace.mandateReviews)}
        />
        <SelectField
          name="prompt_from"
          label="What an agent was asked is said by"
          defaultValue={workspace.promptFrom}
          options={PROMPT_SOURCES}
        />
      </div>
      <FlagField
        name="four_eyes"
        label="Four eyes"
        hint="A key that asked for an approval cannot resolve the escalation."
        defaultChecked={workspace.fourEyes}
      />
      <AreaField
        name="approval_ignores"
        label="Approvals do not cover"
        hint="Names of top-level metadata members, one a line. Two actions that differ only in them count as the same."
        defaultValue={workspace.approvalIgnores.join("\n")}
      />
    </Form>
  );
}
