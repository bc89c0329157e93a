import { type JsonValue, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import type { ToolArgument } from "../../../../gen/agentcontrol/v1/resources_pb.js";
import { ToolService } from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { FieldError, NamedField, NumberField, SelectField, TextField } from "../../kit/form.tsx";
import type { FormValues } from "../../kit/form-values.ts";
import { shownText } from "../../kit/shown.tsx";
import { Fault, Loading } from "../../kit/states.tsx";

/** Form of the value that an operator compares with. */
type ValueForm = "one" | "several" | "range" | "count" | "text" | "list" | "none";

/** Operators with the types that they compare and their value, in the order in which they are offered. */
const OPERATORS: readonly (readonly [name: string, types: readonly string[], form: ValueForm])[] = [
  [">", ["number", "integer"], "one"],
  [">=", ["number", "integer"], "one"],
  ["<", ["number", "integer"], "one"],
  ["<=", ["number", "integer"], "one"],
  ["between", ["number", "integer"], "range"],
  ["not_between", ["number", "integer"], "range"],
  ["==", ["number", "integer", "string", "boolean"], "one"],
  ["!=", ["number", "integer", "string", "boolean"], "one"],
  ["in", ["number", "integer", "string"], "several"],
  ["not_in", ["number", "integer", "string"], "several"],
  ["in_list", ["string", "array"], "list"],
  ["not_in_list", ["string", "array"], "list"],
  ["contains", ["string", "array"], "text"],
  ["not_contains", ["string", "array"], "text"],
  ["contains_any", ["array"], "several"],
  ["contains_all", ["array"], "several"],
  ["subset_of", ["array"], "several"],
  ["starts_with", ["string"], "text"],
  ["ends_with", ["string"], "text"],
  ["matches", ["string"], "text"],
  ["length_gt", ["string", "array"], "count"],
  ["length_lt", ["string", "array"], "count"],
  ["exists", [], "none"],
  ["not_exists", [], "none"],
];
const NUMBERS = ["number", "integer"];

const formOf = (operator: string): ValueForm => OPERATORS.find(([name]) => name === operator)?.[2] ?? "text";

const operatorsFor = (types: readonly string[]): readonly string[] =>
  OPERATORS.filter(([, fits]) => fits.length === 0 || types.some((type) => fits.includes(type))).map(([name]) => name);

const choicesOf = ({ enum: values, types }: ToolArgument): readonly JsonValue[] => {
  if (values.length > 0) return values.map((value) => toJson(ValueSchema, value));
  return types.length === 1 && types[0] === "boolean" ? [true, false] : [];
};

/** Fields of a condition on an argument of a tool: the schema of the tool gives the arguments, the operators that fit, and the values. */
export function ArgumentFields({ tools }: { readonly tools: readonly string[] }) {
  const [tool, setTool] = useState(tools[0] ?? "");
  if (tools.length === 0) {
    return (
      <p className="hint">
        No tool is registered. Register one under Tools, or write a rule on the metadata in the text.
      </p>
    );
  }
  return (
    <>
      <SelectField
        name="tool"
        label="Tool"
        defaultValue={tool}
        options={tools.map((value) => ({ value, title: shownText(value, 80) }))}
        onChange={setTool}
      />
      <ToolFields key={tool} tool={tool} />
    </>
  );
}

function ToolFields({ tool }: { readonly tool: string }) {
  const query = useQuery(ToolService.method.getTool, { name: tool });
  const [path, setPath] = useState<string | undefined>(undefined);
  if (query.isPending) return <Loading what="the arguments" />;
  if (query.isError) return <Fault error={query.error} onRetry={() => void query.refetch()} />;
  const known = query.data.tool?.arguments ?? [];
  const argument = known.find((each) => each.path === path) ?? known[0];
  if (argument === undefined) return <p className="hint">The schema of this tool declares no arguments.</p>;
  return (
    <>
      <SelectField
        name="field"
        label="Argument"
        hint={argument.description === undefined ? undefined : shownText(argument.description, 200)}
        defaultValue={argument.path}
        options={known.map((each) => ({
          value: each.path,
          title: `${shownText(each.path, 80)} (${each.types.join(" or ")})`,
        }))}
        onChange={setPath}
      />
      <ComparisonFields key={argument.path} argument={argument} />
    </>
  );
}

function ComparisonFields({ argument }: { readonly argument: ToolArgument }) {
  const fitting = operatorsFor(argument.types);
  const choices = choicesOf(argument);
  const [operator, setOperator] = useState(choices.length > 0 && fitting.includes("==") ? "==" : fitting[0]);
  return (
    <>
      <SelectField
        name="operator"
        label="Compares"
        defaultValue={operator}
        options={fitting.map((value) => ({ value, title: value }))}
        onChange={setOperator}
      />
      <ValueFields key={operator} argument={argument} form={formOf(operator ?? "")} choices={choices} />
    </>
  );
}

interface ValueFieldsProps {
  readonly argument: ToolArgument;
  readonly form: ValueForm;
  readonly choices: readonly JsonValue[];
}

function ValueFields({ argument, form, choices }: ValueFieldsProps) {
  const isNumber = argument.types.every((type) => NUMBERS.includes(type));
  switch (form) {
    case "none":
      return null;
    case "count":
      return <NumberField name="value" label="Characters or items" />;
    case "range":
      return (
        <>
          <NumberField name="value" label="From" />
          <NumberField name="to" label="To" />
        </>
      );
    case "list":
      return <TextField name="value" label="List" hint="Name of a list of the workspace." />;
    case "several":
      if (choices.length > 0) return <Choices choices={choices} />;
      return <TextField name="value" label="With one of" hint="With commas between." />;
    default:
      if (form === "one" && choices.length > 0) {
        const options = choices.map((choice) => ({ value: JSON.stringify(choice), title: titleOf(choice) }));
        return <SelectField name="value" label="With" options={options} />;
      }
      return isNumber ? <NumberField name="value" label="With" /> : <TextField name="value" label="With" />;
  }
}

const titleOf = (choice: JsonValue): string =>
  shownText(typeof choice === "string" ? choice : JSON.stringify(choice), 80);

function Choices({ choices }: { readonly choices: readonly JsonValue[] }) {
  return (
    <NamedField name="value" label="With one of">
      {(control) => (
        <fieldset {...control} aria-label="With one of" className="stack choices">
          {choices.map((choice) => {
            const value = JSON.stringify(choice);
            return (
              <label key={value} className="row">
                <input type="checkbox" name="value" value={value} />
                {titleOf(choice)}
              </label>
            );
          })}
        </fieldset>
      )}
    </NamedField>
  );
}

/** Parses one typed value by the types of its argument. Throws `FieldError`. */
function valueFrom(text: string, { types }: Pick<ToolArgument, "types">, field: string): JsonValue {
  const isNumber = types.length > 0 && types.every((type) => NUMBERS.includes(type));
  if (text === "") throw new FieldError(field, "must not be empty");
  if (!isNumber) return text;
  if (!Number.isFinite(Number(text))) throw new FieldError(field, `must be a number, not ${shownText(text, 40)}`);
  return Number(text);
}

const isChoice = (text: string, choices: readonly JsonValue[]): boolean =>
  choices.some((choice) => JSON.stringify(choice) === text);

/** Reads the condition from the form. `known`: arguments of the tool. Throws `FieldError` for a value that does not fit. */
export function conditionFrom(values: FormValues, known: readonly ToolArgument[]) {
  const [field, operator] = [values.text("field"), values.text("operator")];
  const argument = known.find(({ path }) => path === field);
  if (argument === undefined) throw new FieldError("field", "is not an argument of the tool; choose another tool");
  const choices = choicesOf(argument);
  const one = (text: string): JsonValue =>
    isChoice(text, choices) ? (JSON.parse(text) as JsonValue) : valueFrom(text, argument, "value");
  const value = (): JsonValue | undefined => {
    switch (formOf(operator)) {
      case "none":
        return undefined;
      case "count":
        return valueFrom(values.text("value"), { types: NUMBERS }, "value");
      case "range":
        return [one(values.text("value")), valueFrom(values.text("to"), argument, "to")];
      case "several": {
        const given = choices.length > 0 ? values.all("value") : values.text("value").split(",");
        const listed = given.map((each) => each.trim()).filter((each) => each !== "");
        if (listed.length === 0) throw new FieldError("value", "needs at least one value");
        return listed.map(one);
      }
      default:
        return one(values.text("value"));
    }
  };
  const given = value();
  return { field, operator, ...(given !== undefined && { value: given }) };
}
