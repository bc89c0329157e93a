/* Requests that are made to hold up the event loop. */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import type { TestServer } from "../support/server.ts";

const CONTENT = 64_000;
const LARGE = 1_000_000;

/** A JSON object. */
export type Json = Readonly<Record<string, unknown>>;
/** Posts a message in binary form. */
export type Send = (path: string, message: Uint8Array<ArrayBuffer>) => Promise<{ readonly status: number }>;
/** Makes a call; a body that is text is sent as it is. */
export type Ask = (
  method: string,
  path: string,
  body?: Json | string,
) => Promise<{ readonly status: number; readonly json: Json }>;

/** Calls that are made to be slow. */
export interface Attack {
  readonly name: string;
  /** Makes what the attack needs, and returns it. */
  readonly prepare: (ask: Ask, agentId: string, send: Send) => Promise<() => Promise<unknown>>;
}

/** Repeats a text up to a length. */
export const repeated = (text: string, length: number): string =>
  text.repeat(Math.ceil(length / text.length)).slice(0, length);

/** A text of two letters without a period. */
function irregular(length: number): string {
  let state = 7;
  let text = "";
  while (text.length < length) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    text += state > 1_073_741_824 ? "a" : "b";
  }
  return text;
}

const PROSE = repeated(
  "The order of Anna B. was sent on 12 May; total 1,204.50 EUR, ref. A-77/3. Please confirm. ",
  CONTENT,
);
const ORDINARY = Array.from({ length: 122 }, (_, index) => {
  const forms = [
    `\\b(?:secret|token${index})\\s*[:=]\\s*\\w{8,}`,
    `word${index}[a-z]+\\d{2,5}`,
    `[a-z]+${index}@[a-z]+\\.com`,
    `\\b\\d{${3 + (index % 9)}}-\\d{2}\\b`,
    `drop\\s+table\\s+t${index}`,
  ];
  return forms[index % forms.length] ?? "";
});

let made = 0;

/** Publishes a mandate; the attack's own type of action keeps it from the other attacks. */
async function mandate(ask: Ask, rule: Json, mayFail = false): Promise<boolean> {
  const { status, json } = await ask("POST", "/v1/enforce/mandates", { name: `m${made++}`, rules: [rule] });
  if (status !== 200 && !mayFail) throw new Error(JSON.stringify(json).slice(0, 500));
  return status === 200;
}

/** Returns a function that asks for a decision; the request is written once, so that the attacker costs little itself. */
export function intercepts(ask: Ask, agentId: string, over: Json): () => Promise<Json> {
  const body = JSON.stringify({ agent_id: agentId, ...over });
  return async () => {
    const { status, json } = await ask("POST", "/v1/enforce/intercept", body);
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(json).slice(0, 500)}`);
    return json;
  };
}

function contentAttack(
  name: string,
  patterns: readonly string[],
  content: string,
  fallback?: readonly string[],
): Attack {
  return {
    name,
    prepare: async (ask, agentId) => {
      const action_type = `content.${made++}`;
      const rule = (each: readonly string[]): Json => ({
        type: "content",
        decision: "block",
        conditions: { patterns: each, match_action_types: [action_type] },
      });
      for (let start = 0; start < patterns.length; start += 100) {
        const isPublished = await mandate(ask, rule(patterns.slice(start, start + 100)), fallback !== undefined);
        if (!isPublished) await mandate(ask, rule(fallback ?? []));
      }
      return intercepts(ask, agentId, { action_type, action_content: content });
    },
  };
}

function argumentAttack(name: string, rules: readonly Json[], note: string): Attack {
  return {
    name,
    prepare: async (ask, agentId) => {
      const tool = `tool_${made++}`;
      const input_schema = { type: "object", properties: { note: { type: "string" } } };
      await ask("POST", "/v1/enforce/tools", { name: tool, input_schema });
      await mandate(ask, { tool, decision: "block", conditions: { operator: "OR", rules } });
      return intercepts(ask, agentId, { action_type: "x", tool, metadata: { arguments: { note } } });
    },
  };
}

function schemaAttack(name: string, branches: number, items: number): Attack {
  return {
    name,
    prepare: async (ask, agentId) => {
      const tool = `tool_${made++}`;
      const anyOf = Array.from({ length: branches }, (_, index) => ({ type: "string", const: `w${index}` }));
      const input_schema = { type: "object", properties: { items: { type: "array", items: { anyOf } } } };
      await ask("POST", "/v1/enforce/tools", { name: tool, input_schema });
      await mandate(ask, { type: "schema", tool, decision: "block", conditions: {} }, true);
      const all = Array.from({ length: items }, () => `w${branches - 1}`);
      return intercepts(ask, agentId, { action_type: "x", tool, metadata: { arguments: { items: all } } });
    },
  };
}

/** Sends an Intercept request in binary form, metadata being its field 4: `entries` of it, each in a record of its own. */
function binaryAttack(name: string, ...entries: readonly (readonly Uint8Array[])[]): Attack {
  const message = concat(entries.map((each) => recordOf(4, concat(each.map((entry) => recordOf(1, entry))))));
  return {
    name,
    prepare: async (_ask, _agentId, send) => () =>
      send("/agentcontrol.v1.EnforcementService/Intercept", new Uint8Array(message)),
  };
}

const concat = (parts: readonly Uint8Array[]): Uint8Array => Buffer.concat(parts);
const recordOf = (field: number, bytes: Uint8Array): Uint8Array =>
  new BinaryWriter().tag(field, WireType.LengthDelimited).bytes(bytes).finish();
/** An entry of metadata: a name and a `google.protobuf.Value`. */
const entryOf = (key: string, value: Uint8Array): Uint8Array =>
  concat([recordOf(1, Buffer.from(key)), recordOf(2, value)]);
/** A `google.protobuf.Value` that is null. */
const NULL = Buffer.from([8, 0]);
const times = <T>(count: number, value: T): readonly T[] => Array.from({ length: count }, () => value);

const typing = (length: number) =>
  Array.from({ length }, (_, index) => ({ field: `amout${index}`, operator: ">>", value: "x" }));

/** Attacks through the interface of the service. */
export const ATTACKS: readonly Attack[] = [
  contentAttack("a[ab]{1,999}c on 64,000 characters", ["a[ab]{1,999}c"], irregular(CONTENT), ["a[ab]{1,490}c"]),
  contentAttack("122 ordinary patterns on 64,000 characters", ORDINARY, PROSE),
  contentAttack("an automaton without end", ["(a|b)*a(a|b){200}c"], irregular(CONTENT)),
  argumentAttack(
    "matches password.{0,200}secret on 1 MB",
    [{ field: "note", operator: "matches", value: "password.{0,200}secret" }],
    repeated("password passwor ", LARGE),
  ),
  {
    name: "100 comparisons with a text of 1 MB for a currency",
    prepare: async (ask, agentId) => {
      const tool = `tool_${made++}`;
      const properties = { amount: { type: "number" }, currency: { type: "string" } };
      await ask("POST", "/v1/enforce/tools", { name: tool, input_schema: { type: "object", properties } });
      const rules = Array.from({ length: 100 }, (_, at) => ({
        field: "amount",
        operator: ">",
        value: at,
        currency: "EUR",
      }));
      await mandate(ask, { tool, decision: "block", conditions: { operator: "OR", rules } });
      const currency = repeated("e\u0323\u0302a\u0316 ", 450_000);
      return intercepts(ask, agentId, { action_type: "x", tool, metadata: { arguments: { amount: 0, currency } } });
    },
  },
  argumentAttack(
    "100 comparisons of a text of 1 MB",
    Array.from({ length: 100 }, (_, index) => ({ field: "note", operator: "contains", value: `needle ${index}` })),
    repeated("ÄÖÜ hay and more hay ", LARGE / 2),
  ),
  schemaAttack("anyOf of 3,000 over 20,000 items", 3_000, 20_000),
  schemaAttack("anyOf of 1,500 over 20,000 items", 1_500, 20_000),
  schemaAttack("anyOf of 50 over 20,000 items", 50, 20_000),
  {
    name: "5,000 conditions that all hold",
    prepare: async (ask, agentId) => {
      const tool = `tool_${made++}`;
      const names = Array.from({ length: 100 }, (_, index) => `n${index}`);
      const properties = Object.fromEntries(names.map((name) => [name, { type: "number" }]));
      await ask("POST", "/v1/enforce/tools", { name: tool, input_schema: { type: "object", properties } });
      const conditions = { rules: names.map((field) => ({ field, operator: ">", value: 5 })) };
      const rules = Array.from({ length: 50 }, () => ({ tool, decision: "block", conditions }));
      await ask("POST", "/v1/enforce/mandates", { name: `m${made++}`, rules });
      const args = Object.fromEntries(names.map((name) => [name, 10]));
      return intercepts(ask, agentId, { action_type: "x", tool, metadata: { arguments: args } });
    },
  },
  {
    name: "a telephone number 75,000 times to the scrubber",
    prepare: async (ask) => () => ask("POST", "/api/redact/own/scrub", { text: repeated("tel 1234567 ", 75_000 * 12) }),
  },
  {
    name: "mandates:compile of 58 kB of misspelt fields",
    prepare: async (ask) => {
      const properties = Object.fromEntries(
        Array.from({ length: 2_000 }, (_, index) => [`amount${index}`, { type: "number" }]),
      );
      await ask("POST", "/v1/enforce/tools", { name: "wide", input_schema: { type: "object", properties } });
      const rules = Array.from({ length: 10 }, () => ({
        tool: "wide",
        decision: "block",
        conditions: { rules: typing(100) },
      }));
      return () => ask("POST", "/v1/enforce/mandates:compile", { rules });
    },
  },
  {
    name: "mandates:compile of 58 kB of patterns",
    prepare: async (ask) => {
      const patterns = Array.from({ length: 100 }, (_, index) => `${index}\\pL{400}[a-z]{90}`);
      const rule = { type: "content", decision: "block", conditions: { patterns } };
      return () => ask("POST", "/v1/enforce/mandates:compile", { rules: Array.from({ length: 20 }, () => rule) });
    },
  },
  {
    name: "metadata of 50,000 small members, refused",
    prepare: async (ask, agentId) => {
      const metadata = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`m${index}`, { a: index }]));
      const body = JSON.stringify({ agent_id: agentId, action_type: "x", metadata });
      return () => ask("POST", "/v1/enforce/intercept", body);
    },
  },
  {
    name: "metadata of 12,000 small members",
    prepare: async (ask, agentId) => {
      const metadata = Object.fromEntries(Array.from({ length: 12_000 }, (_, index) => [`m${index}`, { a: index }]));
      return intercepts(ask, agentId, { action_type: "x", metadata });
    },
  },
  {
    name: "20 at once of metadata of 12,000 small members",
    prepare: async (ask, agentId) => {
      const metadata = Object.fromEntries(Array.from({ length: 12_000 }, (_, index) => [`m${index}`, { a: index }]));
      const decides = intercepts(ask, agentId, { action_type: "x", metadata });
      return () => Promise.all(Array.from({ length: 20 }, decides));
    },
  },
  {
    name: "metadata of 900 kB in one text",
    prepare: async (ask, agentId) =>
      intercepts(ask, agentId, { action_type: "x", metadata: { text: repeated("a long text ", 900_000) } }),
  },
  binaryAttack("250,000 nulls in a list, in binary form", [
    entryOf("l", recordOf(6, concat(times(250_000, recordOf(1, NULL))))),
  ]),
  binaryAttack(
    "2,000 members merged with nothing 20,000 times, in binary form",
    Array.from({ length: 2_000 }, (_, index) => entryOf(`m${index}`, NULL)),
    ...times(20_000, []),
  ),
  {
    name: "a schema of 6,000 arguments, registered anew",
    prepare: async (ask) => {
      let turn = 0;
      return () => {
        const properties = Object.fromEntries(
          Array.from({ length: 9_000 }, (_, index) => [
            `p${index}`,
            { type: "string", pattern: `^a{1,${1 + (turn % 9)}}$`, maxLength: index },
          ]),
        );
        turn++;
        return ask("POST", "/v1/enforce/tools", { name: "huge", input_schema: { type: "object", properties } });
      };
    },
  },
];

/** Returns the calls with a key. */
export function asker(server: Pick<TestServer, "http">, key: string): Ask {
  return async (method, path, body) => {
    const headers = { "x-api-key": key, "content-type": "application/json" };
    const text = typeof body === "object" ? JSON.stringify(body) : (body ?? null);
    const init = { method, headers, body: text };
    const response = await fetch(server.http + path, init);
    return { status: response.status, json: (await response.json()) as Json };
  };
}

/** Returns the posts with a key. */
export function sender(server: Pick<TestServer, "http">, key: string): Send {
  const headers = { "x-api-key": key, "content-type": "application/proto" };
  return async (path, body) => {
    const response = await fetch(server.http + path, { method: "POST", headers, body });
    await response.arrayBuffer();
    return response;
  };
}

/** Registers an agent, and resolves with its id. */
export async function agentOf(ask: Ask): Promise<string> {
  const { json } = await ask("POST", "/v1/enforce/agents", { name: `agent ${made++}` });
  return (json.agent as { agent_id: string }).agent_id;
}
