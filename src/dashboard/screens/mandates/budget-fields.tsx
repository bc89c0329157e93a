import type { JsonObject } from "@bufbuild/protobuf";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { FieldError, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";

const OTHERS = [
  { value: "", title: "fires the rule" },
  { value: "ignore", title: "is left aside" },
];
const RELEASES = [
  { value: "", title: "by the agent's own report" },
  { value: "confirmed", title: "by the gateway's or an operator's report alone" },
];
const NUMBERS = ["number", "integer"];

interface Choice {
  readonly value: string;
  readonly title: string;
}

/** Properties of the fields. */
export interface BudgetFieldsProps {
  readonly tools: readonly string[];
  /** Agents whose amounts may be added together. */
  readonly scopes: readonly Choice[];
}

/** Fields of a budget for the amounts of one tool. The text takes further tools. */
export function BudgetFields({ tools, scopes }: BudgetFieldsProps) {
  const [tool, setTool] = useState(tools[0] ?? "");
  if (tools.length === 0) {
    return (
      <p className="hint">No tool is registered. A budget adds an argument of a tool: register one under Tools.</p>
    );
  }
  return (
    <>
      <SelectField
        name="tool"
        label="Tool"
        hint="Further tools that pay from the same budget go under sums, in the text."
        defaultValue={tool}
        options={tools.map((value) => ({ value, title: shownText(value, 80) }))}
        onChange={setTool}
      />
      <AmountField key={tool} tool={tool} />
      <TextField name="currency" label="Currency" defaultValue="EUR" />
      <NumberField
        name="max_total"
        label="At most"
        hint="In this currency; an action that comes to more fires the rule."
      />
      <NumberField name="window_seconds" label="Within seconds" defaultValue={86_400} />
      <SelectField name="scope" label="Added for" defaultValue="agent" options={scopes} />
      <SelectField name="other_currency" label="An amount in another currency" defaultValue="" options={OTHERS} />
      <SelectField
        name="release"
        label="What was not spent is released"
        hint="An agent that is taken over can report a payment as failed and pay again."
        defaultValue=""
        options={RELEASES}
      />
    </>
  );
}

function AmountField({ tool }: { readonly tool: string }) {
  const query = useQuery(ToolService.method.getTool, { name: tool });
  if (query.isPending) return <Loading what="the arguments" />;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  const numbers = (query.data.tool?.arguments ?? []).filter(({ types }) =>
    types.some((each) => NUMBERS.includes(each)),
  );
  if (numbers.length === 0) return <p className="hint">The schema of this tool declares no number.</p>;
  const options = numbers.map(({ path }) => ({ value: path, title: shownText(path, 80) }));
  return <SelectField name="field" label="Amount" defaultValue={numbers[0]?.path} options={options} />;
}

/** Makes the conditions of a budget from the form. Throws `FieldError` for one that cannot be meant. */
export function budgetFrom(values: FormValues): JsonObject {
  const [tool, field, maxTotal] = [values.text("tool"), values.text("field"), values.number("max_total")];
  if (field === "") throw new FieldError("kind", "needs a registered tool with a number; choose another kind of rule");
  if (maxTotal === undefined || Number.isNaN(maxTotal)) {
    throw new FieldError("max_total", "must be a number, with a point before the decimals");
  }
  const [other, release] = [values.text("other_currency"), values.text("release")];
  return {
    mode: "budget",
    sums: [{ tool, field }],
    currency: values.text("currency"),
    max_total: maxTotal,
    window_seconds: values.integer("window_seconds") ?? 0,
    scope: values.text("scope"),
    ...(other !== "" && { other_currency: other }),
    ...(release !== "" && { release }),
  };
}
