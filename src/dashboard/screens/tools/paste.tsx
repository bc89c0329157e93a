import { fromJson, type JsonObject, type JsonValue } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { ConnectError } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { keepPreviousData } from "@tanstack/react-query";
import { useDeferredValue, useMemo, useRef, useState } from "react";
import { type Node, parseDocument } from "yaml";
import {
  type PastedTool,
  type PasteToolResponse,
  ToolService,
} from "../../../../gen/agentcontrol/v1/tool_service_pb.js";
import { requestErrorFrom } from "../../../client/request-error.ts";
import { Badge } from "../../kit/badge.tsx";
import { ChangeDialog } from "../../kit/change-dialog.tsx";
import { Field } from "../../kit/field.tsx";
import { Message } from "../../kit/message.tsx";
import { Shown } from "../../kit/shown.tsx";
import { Fault } from "../../kit/states.tsx";
import { lineAt, type Place, placeIn } from "../../kit/text-place.ts";
import type { Announcement } from "../../kit/toast.tsx";
import { ArgumentRows } from "./argument-rows.tsx";

const { getTool, listTools, pasteTool } = ToolService.method;
const MAX_SHOWN = 20;

type Parsed = { readonly json: JsonValue } | { readonly fault: string } | undefined;

function parse(text: string): Parsed {
  if (text.trim() === "") return undefined;
  try {
    return { json: JSON.parse(text) as JsonValue };
  } catch (error) {
    return { fault: `must be JSON: ${(error as Error).message}` };
  }
}

const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Names the format of a pasted definition. The service decides whether it is accepted. */
function shapeOf(json: JsonValue): string {
  if (Array.isArray(json)) return `a list of ${json.length}`;
  if (!isObject(json)) return "no object";
  if (isObject(json.result) && Array.isArray(json.result.tools)) return "a reply to tools/list";
  if (Array.isArray(json.tools)) return `a list of ${json.tools.length}`;
  const body = json.type === "function" && isObject(json.function) ? json.function : json;
  if (body !== json || isObject(body.parameters)) return "an OpenAI function";
  if ("inputSchema" in body) return "an MCP tool";
  if ("input_schema" in body) return "an Anthropic tool";
  if ("schema" in body) return "a schema with a name";
  return isObject(body.properties) || body.type === "object" ? "a JSON Schema" : "nothing known";
}

/** Announces the registered tools, and whether tests of mandates fail because of them. */
function registered({ tools, warnings }: PasteToolResponse): Announcement {
  const count = tools.filter(({ created }) => created).length;
  const failing = warnings.length === 0 ? "" : ` ${warnings.length} generated tests of mandates fail since.`;
  return { tone: warnings.length === 0 ? "good" : "bad", text: `Registered ${count} new versions.${failing}` };
}

/** Registers tools from pasted definitions, after a preview of the arguments that rules will see. */
export function Paste({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const area = useRef<HTMLTextAreaElement>(null);
  const parsed = useMemo(() => parse(text), [text]);
  const json = parsed !== undefined && "json" in parsed ? parsed.json : undefined;
  const asked = useDeferredValue(json);
  const definition = useMemo(() => (asked === undefined ? undefined : fromJson(ValueSchema, asked)), [asked]);
  const trial = useQuery(
    pasteTool,
    { dryRun: true, ...(definition !== undefined && { definition }) },
    { enabled: definition !== undefined, retry: false, placeholderData: keepPreviousData },
  );
  const isValid = json !== undefined && trial.error === null && trial.data !== undefined && !trial.isPlaceholderData;
  const show = ({ from, to }: Place): void => {
    const element = area.current;
    if (element === null) return;
    element.focus();
    element.setSelectionRange(from, to);
    const lines = text.split("\n").length;
    element.scrollTop = (element.scrollHeight * (lineAt(text, from) - 1)) / lines - element.clientHeight / 2;
  };
  return (
    <ChangeDialog
      title="Paste a tool's definition"
      submit="Register"
      isWide
      isDisabled={!isValid}
      change={(call) => call(pasteTool, { ...(definition !== undefined && { definition }) })}
      refreshes={[listTools, getTool]}
      done={registered}
      onClose={onClose}
    >
      <Field
        label="Definition"
        hint="JSON: a tool of MCP, OpenAI or Anthropic, a JSON Schema with a name, a reply to tools/list, or a list of these."
        fault={parsed !== undefined && "fault" in parsed ? parsed.fault : undefined}
      >
        {(control) => (
          <textarea
            {...control}
            ref={area}
            name="definition"
            className="mono"
            rows={10}
            spellCheck={false}
            value={text}
            onChange={({ target }) => setText(target.value)}
          />
        )}
      </Field>
      {json === undefined ? null : (
        <div className="stack" aria-live="polite">
          <p>
            Recognised as <strong data-shape>{shapeOf(json)}</strong>.
          </p>
          {trial.error === null ? null : <PasteFault error={trial.error} text={text} onShow={show} />}
          {isValid
            ? trial.data.tools.slice(0, MAX_SHOWN).map((each) => <Preview key={each.tool?.name} pasted={each} />)
            : null}
        </div>
      )}
    </ChangeDialog>
  );
}

interface PasteFaultProps {
  readonly error: Error;
  readonly text: string;
  /** Selects a range of the text. */
  readonly onShow: (place: Place) => void;
}

/** Lists the faults of the paste by line. Each leads to its range in the text. */
function PasteFault({ error, text, onShow }: PasteFaultProps) {
  const violations = error instanceof ConnectError ? requestErrorFrom(error).violations : [];
  // JSON is YAML, and the YAML parser records the range of each member.
  const root = useMemo(() => parseDocument(text, { prettyErrors: false }).contents as Node | null, [text]);
  if (violations.length === 0) return <Fault error={error} />;
  return (
    <ul className="fault" role="alert">
      {violations.slice(0, MAX_SHOWN).map(({ field, description }) => {
        const place = placeIn(root, field.replace(/^definition/, ""), text.length);
        const line = lineAt(text, place.from);
        return (
          <li key={`${field} ${description}`} data-line={line}>
            <button type="button" className="link" data-action="show-fault" onClick={() => onShow(place)}>
              line {line}
            </button>{" "}
            <code>{field}</code> <Message text={description} />
          </li>
        );
      })}
    </ul>
  );
}

function Preview({ pasted: { tool, created } }: { readonly pasted: PastedTool }) {
  if (tool === undefined) return null;
  return (
    <section className="card stack" data-id={tool.name}>
      <h3 className="row">
        <Shown text={tool.name} />
        {created ? <Badge tone="good">version {tool.version}</Badge> : <Badge tone="plain">as registered</Badge>}
      </h3>
      <ArgumentRows rows={tool.arguments} />
      {tool.warnings.map(({ path, message }) => (
        <p key={path} className="hint">
          <code>{path}</code> <Message text={message} />
        </p>
      ))}
    </section>
  );
}
