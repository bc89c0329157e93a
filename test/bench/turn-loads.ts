/* What an agent or an operator can send, and what an upstream can answer, that is large in each way. */
import { create, toBinary } from "@bufbuild/protobuf";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { ListKind, PutListRequestSchema } from "../../gen/agentcontrol/v1/list_service_pb.js";
import { type Ask, ATTACKS, repeated, type Send } from "./attacks.ts";
import type { HeavyAnswer } from "./turn-upstreams.ts";

/** Service and upstreams that loads use. */
export interface TurnLab {
  readonly ask: Ask;
  readonly send: Send;
  readonly agentId: string;
  /** Answers of the MCP server, by tool, and of the model's service, by model. */
  readonly results: Map<string, HeavyAnswer>;
  readonly completions: Map<string, HeavyAnswer>;
  /** Result of the MCP server's `tools/list`. */
  setListing(text: string): void;
  /** Posts a body as it is, and reads and drops the answer. */
  post(path: string, body: string, headers?: Readonly<Record<string, string>>): Promise<number>;
  /** Calls a tool of an MCP server: `heavy`, `scrubbed` or `command`, with a session or without. */
  callTool(server: string, tool: string, isStateless: boolean, args?: string): Promise<number>;
}

/** Calls that are large in one way. */
export interface TurnLoad {
  readonly name: string;
  /** Makes what the calls need, and returns one of them. */
  readonly prepare: (lab: TurnLab) => Promise<() => Promise<unknown>>;
}

/** Values of the metadata of one action. */
const MOST_VALUES = 24_900;
const REST = "/v1/enforce/intercept";
const CONNECT = "/agentcontrol.v1.EnforcementService/Intercept";
const PROXY = "/api/redact/own/openai/v1";

const list = (count: number, item: string): string => `[${`${item},`.repeat(count - 1)}${item}]`;
/** A list of texts that fill a number of bytes. */
const filled = (count: number, bytes: number): string => list(count, `"${"x".repeat(Math.floor(bytes / count) - 3)}"`);

/** JSON texts of arguments: the most that passes, and more than that. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  "the most small values": `{"a":${list(MOST_VALUES, "0")}}`,
  "the most objects": `{"a":${list(MOST_VALUES, "{}")}}`,
  "the most values in 1 MB": `{"a":${filled(MOST_VALUES, 1_000_000)}}`,
  "the most members in 1 MB": JSON.stringify({
    a: Object.fromEntries(Array.from({ length: MOST_VALUES }, (_, at) => [`name ${at}`, "x".repeat(20)])),
  }),
  "one text of 1 MB": `{"a":"${"x".repeat(1_000_000)}"}`,
  "one text of 1 MB in escapes": `{"a":"${"\\u0041\\n".repeat(125_000)}"}`,
  "59,000 values": `{"a":${list(59_000, "0")}}`,
  "300,000 objects": `{"a":${list(300_000, "{}")}}`,
  "1 MB of quotes without commas": '"1 "'.repeat(240_000),
  "64 levels all over": `{"a":${list(400, `${"[".repeat(60)}0${"]".repeat(60)}`)}}`,
};

function requestLoads(): TurnLoad[] {
  const loads: TurnLoad[] = [];
  for (const [what, args] of Object.entries(ARGUMENTS)) {
    const intercept = (agentId: string, metadata: string): string =>
      `{"agent_id":"${agentId}","action_type":"x","metadata":${metadata}}`;
    const load = (door: string, call: (lab: TurnLab) => () => Promise<unknown>): void => {
      loads.push({ name: `${door}: ${what}`, prepare: async (lab) => call(lab) });
    };
    load("REST", ({ post, agentId }) => {
      const body = intercept(agentId, `{"arguments":${args}}`);
      return () => post(REST, body);
    });
    load("Connect", ({ post, agentId }) => {
      const body = `{"agentId":"${agentId}","actionType":"x","metadata":{"arguments":${args}}}`;
      return () => post(CONNECT, body);
    });
    load("arguments as text", ({ post, agentId }) => {
      const body = intercept(agentId, JSON.stringify({ arguments: args }));
      return () => post(REST, body);
    });
    load("hook", ({ post }) => {
      const body = `{"hook_event_name":"PreToolUse","tool_name":"Write","tool_input":${args}}`;
      return () => post("/v1/hooks/claude-code", body);
    });
    load("MCP call", ({ callTool, results }) => {
      results.set("small", { text: '{"content":[]}' });
      return () => callTool("heavy", "small", false, args);
    });
    if (args.startsWith("{") && what !== "64 levels all over") {
      load("binary", ({ send, agentId }) => {
        const metadata = { arguments: JSON.parse(args) };
        const request = create(InterceptRequestSchema, { agentId, actionType: "x", metadata });
        const bytes = new Uint8Array(toBinary(InterceptRequestSchema, request));
        return () => send(CONNECT, bytes);
      });
    }
  }
  return loads;
}

/** JSON texts of results of an MCP server, of 8 MB where they can be. */
const RESULTS: Readonly<Record<string, string>> = {
  "one text of 8 MB": `{"content":[{"type":"text","text":"${"x".repeat(8_300_000)}"}]}`,
  "one text of 8 MB in escapes": `{"content":[{"type":"text","text":"${"\\n".repeat(4_150_000)}"}]}`,
  "one text of 8 MB that may hide a name": `{"content":[{"type":"text","text":"${"\\u0001".repeat(1_380_000)}"}]}`,
  "the most values in 8 MB": `{"content":[],"structuredContent":{"a":${filled(99_000, 8_300_000)}}}`,
  "the most objects that may hide a name": `{"content":[],"structuredContent":{"a":${list(49_000, '{"\\u0061":{}}')}}}`,
  "2,700,000 objects": `{"content":${list(2_700_000, "{}")}}`,
  "1,000,000 open brackets": `{"content":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`,
};
const SCRUBBED: Readonly<Record<string, string>> = {
  "numbers all over a text of 900 kB": `{"content":[{"type":"text","text":"${"1 ".repeat(450_000)}"}]}`,
  "a document of 200,000 values in a text": `{"content":[{"type":"text","text":"${list(200_000, "17")}"}]}`,
  "the most values": `{"content":[],"structuredContent":{"a":${list(99_000, '"call me"')}}}`,
  "20,000 names that are addresses": JSON.stringify({
    content: [],
    structuredContent: Object.fromEntries(Array.from({ length: 20_000 }, (_, at) => [`n${at}@corp-mail.org`, at])),
  }),
};

function resultLoads(): TurnLoad[] {
  const loads: TurnLoad[] = [];
  const add = (door: string, server: string, what: string, answer: HeavyAnswer, isStateless: boolean): void => {
    const tool = `t${loads.length}`;
    loads.push({
      name: `${door}: ${what}`,
      async prepare({ results, callTool }) {
        results.set(tool, answer);
        return () => callTool(server, tool, isStateless);
      },
    });
  };
  for (const [what, text] of Object.entries(RESULTS)) {
    add("MCP result", "heavy", what, { text }, false);
    add("MCP result in a stream", "heavy", what, { text, isStream: true }, false);
    add("MCP result for a stateless client", "heavy", what, { text }, true);
    add("MCP result in a stream for a stateless client", "heavy", what, { text, isStream: true }, true);
    add("MCP result of a command", "command", what, { text }, false);
  }
  for (const [what, text] of Object.entries(SCRUBBED)) add("MCP result, scrubbed", "scrubbed", what, { text }, false);
  return loads;
}

const tool = (at: number, more: object = {}): object => ({
  name: `tool_${at}`,
  description: "d".repeat(100),
  inputSchema: { type: "object", properties: { a: { type: "string" } } },
  ...more,
});

const LISTINGS: Readonly<Record<string, () => string>> = {
  "2,000 tools": () => JSON.stringify({ tools: Array.from({ length: 2_000 }, (_, at) => tool(at)) }),
  "30 tools of 250 kB": () =>
    JSON.stringify({ tools: Array.from({ length: 30 }, (_, at) => tool(at, { description: "d".repeat(250_000) })) }),
  "a tool of 6,000 arguments": () => {
    const properties = Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`p${at}`, { type: "string" }]));
    return JSON.stringify({ tools: [tool(0, { inputSchema: { type: "object", properties } })] });
  },
};

function listingLoads(): TurnLoad[] {
  return Object.entries(LISTINGS).map(([what, text]) => ({
    name: `MCP listing: ${what}`,
    async prepare({ ask, setListing }) {
      const whole = text();
      let turn = 0;
      return async () => {
        // Another listing each time, so that it is compared anew.
        setListing(whole.replace('"d', `"d${turn++} `));
        return ask("POST", "/v1/enforce/mcp-servers/heavy:refresh", {});
      };
    },
  }));
}

const chat = (model: string, content: string): string =>
  `{"model":"${model}","messages":[{"role":"user","content":${content}}]}`;

const BODIES: Readonly<Record<string, string>> = {
  "59,000 values": `{"model":"m","messages":[],"x":${list(59_000, '"a"')}}`,
  "340,000 values": `{"model":"m","messages":[],"x":${list(340_000, "{}")}}`,
  "a document of 200,000 values in a text": chat("m", JSON.stringify(list(200_000, "17"))),
  "numbers all over a text of 900 kB": chat("m", `"${"1 ".repeat(450_000)}"`),
  "quotes all over a text": chat("m", JSON.stringify('"1 "'.repeat(150_000))),
  "telephone numbers all over a text": chat("m", `"${repeated("tel 1234567 ", 900_000)}"`),
  "50,000 names that are addresses": JSON.stringify({
    model: "m",
    messages: [],
    x: Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`n${at}@corp-mail.org`, at])),
  }),
};
const said = (content: string): string =>
  `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":${content}}}]}`;
const COMPLETIONS: Readonly<Record<string, HeavyAnswer>> = {
  "a text of 16 MB": { text: said(`"${"x".repeat(16_000_000)}"`) },
  "numbers all over a text of 900 kB": { text: said(`"${"1 ".repeat(450_000)}"`) },
  "the most objects": { text: `{"x":${list(490_000, "{}")}}` },
  "the most values": { text: `{"x":${list(490_000, '"call me"')}}` },
  "5,000,000 objects": { text: `{"x":${list(5_000_000, "{}")}}` },
  "300 embeddings in numbers": {
    text: `{"object":"list","data":${list(300, `{"object":"embedding","embedding":${list(1_536, "-0.00692928")}}`)}}`,
  },
  "one event of 16 MB": {
    isStream: true,
    text: `data: {"choices":[{"index":0,"delta":{"content":"${"x ".repeat(8_000_000)}"}}]}\n\ndata: [DONE]\n\n`,
  },
  "100,000 events": {
    isStream: true,
    text: `${'data: {"choices":[{"index":0,"delta":{"content":"1 "}}]}\n\n'.repeat(100_000)}data: [DONE]\n\n`,
  },
  "1,000,000 line ends": { isStream: true, text: `${"\r\n\n".repeat(330_000)}data: [DONE]\n\n` },
  "an event of 900 texts": {
    isStream: true,
    text: `data: ${JSON.stringify({
      choices: [
        { index: 0, delta: { tool_calls: Array.from({ length: 900 }, (_, index) => ({ index, x: "call me 12" })) } },
      ],
    })}\n\ndata: [DONE]\n\n`,
  },
};

function modelLoads(): TurnLoad[] {
  const bodies = Object.entries(BODIES).map(([what, body]) => ({
    name: `model request: ${what}`,
    prepare: async ({ post }: TurnLab) => {
      return () => post(`${PROXY}/chat/completions`, body);
    },
  }));
  const answers = Object.entries(COMPLETIONS).map(([what, answer], at) => ({
    name: `model answer: ${what}`,
    async prepare({ post, completions }: TurnLab) {
      completions.set(`m${at}`, answer);
      const body = `{"model":"m${at}","messages":[],"input":"x"}`;
      const path = what.includes("embeddings") ? "embeddings" : "chat/completions";
      return () => post(`${PROXY}/${path}`, body);
    },
  }));
  return [...bodies, ...answers];
}

function guardLoads(): TurnLoad[] {
  const texts = {
    "60,000 brackets": "[".repeat(60_000),
    "20,000 values": `{"choices":${list(20_000, "{}")}}`,
    "a verdict of 60 kB": said(JSON.stringify(`{"violates":false,"confidence":1,"reason":"${'\\"'.repeat(25_000)}"}`)),
  };
  return Object.entries(texts).map(([what, text], at) => ({
    name: `guard's answer: ${what}`,
    async prepare({ ask, agentId, completions }: TurnLab) {
      completions.set("guard", { text });
      const rule = {
        type: "semantic",
        decision: "block",
        conditions: { prompt: "is it harmful", match_action_types: [`guard.${at}`] },
      };
      await ask("POST", "/v1/enforce/mandates", { name: `guard ${at}`, rules: [rule] });
      return () => ask("POST", REST, { agent_id: agentId, action_type: `guard.${at}`, action_content: "x" });
    },
  }));
}

/** What operators can publish. */
function operatorLoads(): TurnLoad[] {
  const texts = (count: number, length: number): string[] =>
    Array.from({ length: count }, (_, at) => `${at} ${"x".repeat(length)}`);
  const pack = (count: number, length: number): object => ({
    mandates: Array.from({ length: count }, (_, at) => ({
      name: `m${at}`,
      description: "d".repeat(length),
      rules: [{ type: "content", decision: "block", conditions: { patterns: [`word ${at}`] } }],
    })),
    dry_run: true,
  });
  const load = (name: string, method: string, path: string, body?: object): TurnLoad => ({
    name: `operator: ${name}`,
    prepare: async ({ ask }) => {
      const text = body && JSON.stringify(body);
      return () => ask(method, path, text);
    },
  });
  const patterns = { type: "content", decision: "block", conditions: { patterns: texts(100, 80) } };
  const words = {
    tool: "none",
    decision: "block",
    conditions: { rules: [{ field: "a", operator: "in", value: texts(1_000, 80) }] },
  };
  const schema = (properties: object): object => ({ name: "big", input_schema: { type: "object", properties } });
  return [
    load(
      "a schema of 1 MB in one text",
      "POST",
      "/v1/enforce/tools",
      schema({ a: { description: "d".repeat(1_000_000) } }),
    ),
    load(
      "a schema of 12,000 arguments",
      "POST",
      "/v1/enforce/tools",
      schema(Object.fromEntries(Array.from({ length: 12_000 }, (_, at) => [`p${at}`, { type: "string" }]))),
    ),
    load("pasted tools of 1 MB", "POST", "/api/control/enforcement/tools", {
      definition: Array.from({ length: 900 }, (_, at) => ({
        name: `t${at}`,
        inputSchema: { type: "object", title: "t".repeat(1_000) },
      })),
    }),
    load("a mandate of 100 rules with 100 patterns", "POST", "/v1/enforce/mandates:compile", {
      rules: Array.from({ length: 100 }, () => patterns),
    }),
    load("a mandate of lists of words", "POST", "/v1/enforce/mandates:compile", {
      rules: Array.from({ length: 10 }, () => words),
    }),
    load("a pack of 200 mandates", "PUT", "/v1/enforce/packs/big", pack(200, 1_000)),
    load("a pack of 900 kB", "PUT", "/v1/enforce/packs/big", pack(100, 9_000)),
    load("a page of decisions", "GET", "/v1/enforce/decisions?page_size=500"),
    load("a page of the vault", "GET", "/v1/enforce/vault/entries?page_size=500"),
    load("numbers all over a text to scrub", "POST", "/api/redact/own/scrub", { text: "1 ".repeat(450_000) }),
  ];
}

/** Named lists of the most values and bytes, whose content differs from call to call. */
/** Contents of 1 MiB, each call with other values, so that a session is soon full and forgets with every one. */
function observationLoads(): TurnLoad[] {
  const words = (salt: number): string =>
    Array.from({ length: 80_000 }, (_, index) => `w${salt}x${index.toString(36)}`).join(" ");
  const contents: Readonly<Record<string, (salt: number) => string>> = {
    "1 MiB of words": words,
    "1 MiB of lines": (salt) => words(salt).replaceAll(" ", "\n"),
    "1 MiB of addresses": (salt) =>
      Array.from({ length: 40_000 }, (_, index) => `a${salt}.${index.toString(36)}@mail.example`).join(", "),
    "1 MiB of JSON members": (salt) =>
      JSON.stringify(
        Object.fromEntries(
          words(salt)
            .split(" ")
            .slice(0, 45_000)
            .map((word) => [word, 1]),
        ),
      ),
    "1 MiB in one text of JSON": (salt) => JSON.stringify([`${salt}${"x".repeat(1_000_000)}`]),
    "1 MiB of digits": (salt) => repeated(`${salt}7`, 1_000_000),
  };
  return Object.entries(contents).map(([what, contentOf]) => ({
    name: `observation: ${what}`,
    async prepare({ ask, post, agentId }) {
      const { json } = await ask("POST", "/v1/enforce/sessions", { agent_id: agentId });
      const { session_id } = json.session as { readonly session_id: string };
      let salt = 0;
      return () => {
        const content = contentOf(salt++).slice(0, 1_048_576);
        const body = JSON.stringify({ source: "result", content });
        return post(`/v1/enforce/sessions/${session_id}/observations`, body);
      };
    },
  }));
}

function listLoads(): TurnLoad[] {
  const values = (at: number): string[] =>
    Array.from({ length: 100_000 }, (_, index) => `${at} ${index} `.padEnd(41, "x"));
  const bodies = [values(1), values(2)];
  const escaped = Array.from({ length: 36_000 }, (_, index) => `${index} `.padEnd(60, "é"));
  const PUT = "/agentcontrol.v1.ListService/PutList";
  const load = (door: string, call: (lab: TurnLab) => readonly (() => Promise<unknown>)[]): TurnLoad => ({
    name: `list of 100,000 values: ${door}`,
    prepare: async (lab) => {
      const calls = call(lab);
      let at = 0;
      return () => (calls[at++ % calls.length] as () => Promise<unknown>)();
    },
  });
  return [
    load("REST", ({ post, ask }) => {
      const put = ask("PUT", "/v1/enforce/lists/rest", { kind: "text", values: [] });
      return ["add", "remove"].flatMap((verb) =>
        bodies.slice(0, 1).map((body) => {
          const text = JSON.stringify({ values: body });
          return async () => {
            await put;
            return post(`/v1/enforce/lists/rest:${verb}`, text);
          };
        }),
      );
    }),
    load("Connect", ({ post }) =>
      bodies.map((each) => {
        const text = JSON.stringify({ name: "connect", kind: "LIST_KIND_TEXT", values: each });
        return () => post(PUT, text);
      }),
    ),
    load("binary", ({ send }) =>
      bodies.map((each) => {
        const request = create(PutListRequestSchema, { name: "binary", kind: ListKind.TEXT, values: each });
        const bytes = new Uint8Array(toBinary(PutListRequestSchema, request));
        return () => send(PUT, bytes);
      }),
    ),
    load("Connect in escapes", ({ post }) => {
      const plain = JSON.stringify({ name: "escapes", kind: "LIST_KIND_TEXT", values: escaped });
      const text = plain.replaceAll("é", "\\u00e9");
      return [() => post(PUT, text)];
    }),
  ];
}

const attackLoads = (): TurnLoad[] =>
  ATTACKS.map(({ name, prepare }) => ({
    name: `attack: ${name}`,
    prepare: async ({ ask, agentId, send }) => {
      const call = await prepare(ask, agentId, send);
      return () => call().catch(lateStatus);
    },
  }));

/** Returns the status of an attack that ended at its deadline. Throws other errors. */
function lateStatus(error: Error): number {
  if (!error.message.startsWith("504 ")) throw error;
  return 504;
}

/** Every load. */
export const turnLoads = (): readonly TurnLoad[] => [
  ...requestLoads(),
  ...resultLoads(),
  ...listingLoads(),
  ...modelLoads(),
  ...guardLoads(),
  ...operatorLoads(),
  ...listLoads(),
  ...observationLoads(),
  ...attackLoads(),
];
