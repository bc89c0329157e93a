import type { JsonObject } from "@bufbuild/protobuf";
import { useState } from "react";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { FieldError, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import type { Call } from "../../kit/use-change.ts";
import { ApproverFields, approversFrom, assertApproversCompile } from "./approver-fields.tsx";
import { ArgumentFields, conditionFrom } from "./argument-fields.tsx";
import { BudgetFields, budgetFrom } from "./budget-fields.tsx";
import { withRule } from "./mandate-text.ts";

const KINDS = [
  { value: "argument", title: "An argument of a tool" },
  { value: "velocity", title: "Too many actions in a time" },
  { value: "budget", title: "Too much money in a time" },
  { value: "action", title: "A kind of action" },
  { value: "trust", title: "An agent with little trust" },
  { value: "schedule", title: "Hours of the day" },
] as const;
type Kind = (typeof KINDS)[number]["value"];

const DECISIONS = ["escalate", "block", "allow"].map((value) => ({ value, title: value }));
const SCOPES = [
  { value: "agent", title: "each agent alone" },
  { value: "department", title: "the agent's departments together" },
  { value: "workspace", title: "the workspace together" },
];

/** Properties of the form. */
export interface RuleFormProps {
  readonly text: string;
  readonly tools: readonly string[];
  readonly onText: (text: string) => void;
  readonly onClose: () => void;
}

/** Appends one of the common rules to the text, and leaves the rest unchanged. */
export function RuleForm({ text, tools, onText, onClose }: RuleFormProps) {
  const [kind, setKind] = useState<Kind>("argument");
  const [decision, setDecision] = useState("escalate");
  const add = async (call: Call, values: FormValues): Promise<void> => {
    const rule = await ruleFrom(kind, values, call);
    const approvers = decision === "escalate" ? approversFrom(values) : undefined;
    const next = withRule(text, { ...rule, ...(approvers !== undefined && { approvers }) });
    if (approvers !== undefined) await assertApproversCompile(next, call);
    onText(next);
  };
  return (
    <ChangeDialog title="Add a rule" submit="Add to the text" change={add} onClose={onClose}>
      <SelectField
        name="kind"
        label="About"
        defaultValue={kind}
        options={KINDS}
        onChange={(value) => setKind(value as Kind)}
      />
      <SelectField name="decision" label="Decides" defaultValue={decision} options={DECISIONS} onChange={setDecision} />
      {kind === "argument" ? <ArgumentFields tools={tools} /> : null}
      {kind === "velocity" ? <VelocityFields /> : null}
      {kind === "budget" ? <BudgetFields tools={tools} scopes={SCOPES} /> : null}
      {kind === "action" ? (
        <TextField name="types" label="Action types" hint="With commas between; * stands for anything." />
      ) : null}
      {kind === "trust" ? <NumberField name="below" label="Trust below" hint="0 to 100." defaultValue={30} /> : null}
      {kind === "schedule" ? <ScheduleFields /> : null}
      {decision === "escalate" ? <ApproverFields /> : null}
    </ChangeDialog>
  );
}

function VelocityFields() {
  return (
    <>
      <TextField name="types" label="Action types" hint="With commas between; * stands for anything." />
      <NumberField name="max_count" label="More than" defaultValue={10} />
      <NumberField name="window_seconds" label="Within seconds" defaultValue={3_600} />
      <SelectField name="scope" label="Counted for" defaultValue="agent" options={SCOPES} />
    </>
  );
}

function ScheduleFields() {
  return (
    <>
      <TextField name="time_zone" label="Time zone" defaultValue="Europe/Berlin" />
      <TextField name="from" label="From" defaultValue="08:00" />
      <TextField name="to" label="To" defaultValue="18:00" />
      <SelectField
        name="outside"
        label="Fires"
        defaultValue="true"
        options={[
          { value: "true", title: "outside of these hours" },
          { value: "false", title: "within these hours" },
        ]}
      />
    </>
  );
}

const listed = (text: string): string[] =>
  text
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "");

async function ruleFrom(kind: Kind, values: FormValues, call: Call): Promise<JsonObject> {
  const decision = values.text("decision");
  switch (kind) {
    case "argument": {
      const name = values.text("tool");
      if (name === "") throw new FieldError("kind", "needs a registered tool; choose another kind of rule");
      const { tool } = await call(ToolService.method.getTool, { name });
      return { tool: name, decision, conditions: { rules: [conditionFrom(values, tool?.arguments ?? [])] } };
    }
    case "velocity":
      return {
        type: "sequence",
        decision,
        conditions: {
          mode: "velocity",
          match_action_types: listed(values.text("types")),
          max_count: values.integer("max_count") ?? 0,
          window_seconds: values.integer("window_seconds") ?? 0,
          scope: values.text("scope"),
        },
      };
    case "budget":
      return { type: "sequence", decision, conditions: budgetFrom(values) };
    case "action":
      return { type: "action", decision, conditions: { match_action_types: listed(values.text("types")) } };
    case "trust":
      return { type: "trust", decision, conditions: { below: values.number("below") ?? 0 } };
    default:
      return {
        type: "schedule",
        decision,
        conditions: {
          time_zone: values.text("time_zone"),
          from: values.text("from"),
          to: values.text("to"),
          ...(values.text("outside") === "true" && { outside: true }),
        },
      };
  }
}
