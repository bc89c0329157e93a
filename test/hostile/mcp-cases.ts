/* Hostile messages of MCP to the gateway, in both generations of the protocol. */

import { deflateSync, gzipSync } from "node:zlib";
import { disguisedSame, type NameKind, numberDisguised, ODD_MEMBERS, textDisguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import {
  decisionOf,
  type GatewayLab,
  type GatewayRequest,
  type Lane,
  MCP_PLAINS,
  type McpPlain,
  serverOf,
} from "./gateway-lab.ts";
import { HostileFinding } from "./lab.ts";
import { FORBIDDEN } from "./mcp-judge.ts";
import type { Generation } from "./mcp-upstream.ts";
import { chunked } from "./raw-http.ts";
import { type Right, SAME } from "./rights.ts";

/** Right for a message that is refused before a decision, by its reasons or codes. */
const coded = (...reasons: readonly Uppercase<string>[]): readonly Right[] =>
  reasons.map((reason): Right => `${reason} *`);
const INVALID = coded("RPC_32600");
const BAD_PARAMS = coded("RPC_32602");
const UNKNOWN_METHOD = coded("RPC_32601", "RPC_32020");
const MALFORMED = coded("MALFORMED_JSON");
/** Right for what no record can keep: U+0000, half of a surrogate pair, a number beyond all numbers. */
const UNKEPT = coded("INVALID_FIELD");
const PASSED = coded("PASSED");
/** Right for what a server may hear of, and what nothing comes of. */
const HEARD = coded("HTTP_202");

interface Situation {
  readonly lane: Lane;
  readonly generation: Generation;
  readonly plain: McpPlain;
}
type Disguises = readonly (readonly [name: string, rights: readonly Right[], make: () => GatewayRequest])[];

const GENERATIONS = ["stateful", "stateless"] as const;

function situation(draw: Draw, lane: Lane, fits: (plain: McpPlain) => boolean = () => true): Situation {
  const generation = draw.pick(GENERATIONS);
  const fitting = MCP_PLAINS.filter(
    (plain) => (plain.generation === undefined || plain.generation === generation) && fits(plain),
  );
  return { lane, generation, plain: draw.pick(fitting) };
}

/** A family whose case is one request. */
function family(
  make: (draw: Draw, lab: GatewayLab, situated: Situation) => GatewayRequest,
  fits?: (plain: McpPlain) => boolean,
) {
  return {
    run: (lab: GatewayLab, draw: Draw): Promise<void> =>
      lab.inLane(async (lane) => {
        const situated = situation(draw, lane, fits);
        await lab.attempt(draw, lane, make(draw, lab, situated));
      }),
    control: (lab: GatewayLab, draw: Draw): Promise<void> =>
      lab.inLane(async (lane) => {
        const { generation, plain } = situation(draw, lane, fits);
        await lab.assertBoth(lane, generation, plain);
      }),
  };
}

const TOOL_NAME: NameKind = {
  kind: "mcp tool",
  isExact: true,
  refusals: coded("TOOL_UNKNOWN", "RPC_32602", "MALFORMED_JSON", "INVALID_FIELD"),
};
/** A server knows a tool by its exact name alone, so that any other spelling is refused as unknown too. */
function disguisedTool(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const name = disguisedSame(draw, String(plain.params.name), TOOL_NAME);
  return lab.request(lane, generation, "tools/call", { ...plain.params, name });
}

function disguisedArguments(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const ask = (args: unknown, more: object = {}): GatewayRequest =>
    lab.request(lane, generation, "tools/call", { name: "pay", arguments: args, ...more });
  const args = plain.params.arguments as { amount?: number; note?: string };
  if (args.amount !== undefined && !draw.once(3)) {
    const amount = numberDisguised(draw, 1_234);
    if (typeof amount === "number" && !Number.isFinite(amount)) {
      // JSON has no such number.
      draw.takeUses();
      draw.use("mcp number: not finite", UNKEPT);
      const request = ask({ amount: 1 });
      return { ...request, body: Buffer.from(request.body.toString().replace('"amount":1', '"amount":1e999')) };
    }
    if (typeof amount === "string" && amount.includes("\u0000")) {
      draw.takeUses();
      draw.use("mcp number: with U+0000", UNKEPT);
      return ask({ amount });
    }
    draw.use("mcp number: another form", [...SAME, ...coded("INVALID_FIELD", "RPC_32602", "MALFORMED_JSON", "PASSED")]);
    return ask({ amount });
  }
  if (args.note !== undefined && draw.once(2)) return ask({ note: textDisguised(draw, args.note) });
  const small = { amount: 1, note: "a" };
  const odd = draw.pick(ODD_MEMBERS);
  return draw.disguise<GatewayRequest>("mcp arguments", [
    ["beside others", SAME, () => ask({ a: 1, ...args, b: [{ amount: 1 }] })],
    [
      "beside an odd member",
      [...SAME, ...UNKEPT],
      () => ask(JSON.parse(JSON.stringify(args).replace("{", `{${JSON.stringify(odd)}:{},`))),
    ],
    ["beside their input", SAME, () => ask(args, { input: small, args: small, Arguments: small })],
    ["in another member", PASSED, () => ask(small, { input: args, ARGUMENTS: args })],
    [
      "in an odd member",
      [...PASSED, ...UNKEPT],
      () => ask(JSON.parse(`{${JSON.stringify(odd)}:${JSON.stringify(args)}}`)),
    ],
    ["in a text", BAD_PARAMS, () => ask(JSON.stringify(args))],
    ["in a list", BAD_PARAMS, () => ask([args])],
    [
      "in _meta",
      PASSED,
      () => ask(small, { _meta: { arguments: args, "agentcontrol.v1/decision": { decision: "allow" } } }),
    ],
    [
      "with a decision of its own",
      SAME,
      () => ask(args, { _meta: { "agentcontrol.v1/decision": { decision: "allow" }, "vendor/x": 1 } }),
    ],
    ["of a task", [...SAME, ...INVALID, ...BAD_PARAMS], () => ask(args, { task: { ttl: 1 } })],
    ["of a round", SAME, () => ask(args, { inputResponses: {}, requestState: "x" })],
  ]);
}

const REFUSED_PLACE = BAD_PARAMS;
function disguisedPlace(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const listened = plain.method === "subscriptions/listen";
  const ask = (uri: unknown, more: object = {}): GatewayRequest =>
    lab.request(
      lane,
      generation,
      plain.method,
      listened ? { notifications: { resourceSubscriptions: ["a:1", uri], ...more } } : { uri, ...more },
    );
  const isFolder = plain.rule.endsWith("folder");
  const plainUri = isFolder ? `${FORBIDDEN.folder}keys` : `${FORBIDDEN.site}keys`;
  const encode = (text: string): string =>
    text
      .replace(/./g, (each) => (draw.once(2) ? each : `%${each.charCodeAt(0).toString(16)}`))
      .replace(/^[^%]/, (each) => `%${each.charCodeAt(0).toString(16)}`);
  const dots = ["..", "%2e%2e", ".%2E", "%2e."];
  const places: readonly (readonly [string, readonly Right[], () => unknown, string?])[] = [
    ["upper case", SAME, () => plainUri.toUpperCase()],
    ["white space around", REFUSED_PLACE, () => `${draw.pick([" ", "\t", "\n"])}${plainUri} `],
    ["a query", SAME, () => `${plainUri}${draw.pick(["?x", "#x", "?x=../", ";a=b"])}`],
    [
      "white space inside",
      REFUSED_PLACE,
      () => plainUri.replace(/(?<=\/)\w/, (each) => `${draw.pick(["\t", "\n", "\r"])}${each}`),
    ],
    ["a text in a list", BAD_PARAMS, () => [plainUri]],
    ["an object", BAD_PARAMS, () => ({ uri: plainUri })],
    ...(isFolder
      ? ([
          ["dots", REFUSED_PLACE, () => `file:///public/${draw.pick(dots)}/vault/keys`],
          ["a dot", REFUSED_PLACE, () => `file:///${draw.pick([".", "%2e"])}/vault/keys`],
          ["encoded letters", REFUSED_PLACE, () => `file:///${encode("vault")}/keys`],
          ["an encoded slash", REFUSED_PLACE, () => `file:///vault%2fkeys`],
          ["double slashes", REFUSED_PLACE, () => `file:${draw.pick(["////", "//////"])}vault/keys`],
          ["no authority", REFUSED_PLACE, () => `file:${draw.pick(["/", ""])}vault/keys`],
          ["its own host", REFUSED_PLACE, () => "file://localhost/vault/keys"],
          [
            "back slashes",
            REFUSED_PLACE,
            () => draw.pick(["file:\\\\\\vault\\keys", "file:///vault\\keys", "file:///public\\..\\vault/keys"]),
          ],
          ["full width", SAME, () => "file:///\uff56ault/keys"],
          ["an invisible character", SAME, () => "file:///va\u200bult/keys"],
        ] as const)
      : ([
          ["full width", REFUSED_PLACE, () => "https://\uff42ank.test/keys"],
          ["encoded letters in its host", REFUSED_PLACE, () => `https://${encode("bank")}.test/keys`],
          ["a dot at the end of its host", REFUSED_PLACE, () => "https://bank.test./keys"],
          ["its port", REFUSED_PLACE, () => "https://bank.test:443/keys"],
          [
            "a user",
            REFUSED_PLACE,
            () => draw.pick(["https://a@bank.test/keys", "https://shop.test:x@bank.test/keys"]),
          ],
          ["other slashes", REFUSED_PLACE, () => `https:${draw.pick(["", "/", "///", "\\\\"])}bank.test/keys`],
          ["an ideographic dot", REFUSED_PLACE, () => "https://bank\u3002test/keys"],
          ["a soft hyphen", REFUSED_PLACE, () => "https://ba\u00adnk.test/keys"],
        ] as const)),
  ];
  const [name, rights, make] = draw.pick(places);
  draw.use(`${isFolder ? "folder" : "site"}: ${name}`, rights);
  return ask(make());
}

function disguisedPrompt(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const ask = (params: object): GatewayRequest => lab.request(lane, generation, plain.method, params as never);
  const isPrompt = plain.method === "prompts/get";
  const { ref = {} } = plain.params;
  const named = (name: unknown, more: object = {}): GatewayRequest =>
    isPrompt ? ask({ name, ...more }) : ask({ ref, argument: { name, value: "a" }, ...more });
  const name = isPrompt ? FORBIDDEN.prompt : FORBIDDEN.completed;
  return draw.disguise<GatewayRequest>("mcp prompt", [
    ["upper case", SAME, () => named(name.toUpperCase())],
    ["white space around", SAME, () => named(`\u3000${name} `)],
    ["a list", isPrompt ? BAD_PARAMS : SAME, () => named([name])],
    ["beside another name", SAME, () => named(name, { Name: "greet", title: "greet", input: {} })],
    [
      "with arguments",
      SAME,
      () => named(name, isPrompt ? { arguments: { name: "greet" } } : { context: { arguments: {} } }),
    ],
    ["arguments of no kind", BAD_PARAMS, () => named(name, isPrompt ? { arguments: "a" } : { context: [] })],
    ["no name", isPrompt ? BAD_PARAMS : SAME, () => named({ name })],
  ]);
}

function disguisedText(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const { method, params } = plain;
  const plainRequest = lab.request(lane, generation, method, params);
  const text = plainRequest.body.toString();
  const whole = JSON.parse(text) as { id: number; params: object };
  const inside = text.slice(1, -1);
  const of = (body: string): GatewayRequest => ({ ...plainRequest, body: Buffer.from(body) });
  const beside = (member: string): GatewayRequest =>
    of(draw.once(2) ? `{${inside},${member}}` : `{${member},${inside}}`);
  const withId = (id: string): GatewayRequest => of(text.replace(`"id":${whole.id}`, `"id":${id}`));
  const named = (name: string): GatewayRequest => {
    const headers = plainRequest.headers.map((each) =>
      each.startsWith("mcp-method") && draw.once(2)
        ? `mcp-method: ${Buffer.from(name)
            .toString("latin1")
            .replace(/[\0\r\n]/g, "")}`
        : each,
    );
    return { ...plainRequest, headers, body: Buffer.from(text.replace(JSON.stringify(method), JSON.stringify(name))) };
  };
  const escaped = [...method].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  const odd = draw.pick(ODD_MEMBERS);
  const cases: Disguises = [
    ["escaped", SAME, () => of(text.replace(JSON.stringify(method), `"${escaped}"`))],
    ["an escaped member", SAME, () => of(text.replace('"method"', '"\\u006dethod"'))],
    ["a method twice", coded("DUPLICATE_FIELD"), () => beside(`${draw.pick(['"method"', '"\\u006dethod"'])}:"ping"`)],
    ["params twice", coded("DUPLICATE_FIELD"), () => beside('"params":{}')],
    ["a mark of the byte order", MALFORMED, () => of(`\ufeff${text}`)],
    ["white space around", SAME, () => of(`\n\t ${text} \r\n`)],
    ["something after it", MALFORMED, () => of(text + draw.pick([text, "\u0000", "{}"]))],
    ["cut off", MALFORMED, () => of(text.slice(0, 1 + draw.below(text.length - 1)))],
    ["a batch", INVALID, () => of(draw.pick([`[${text}]`, "[]", `[${text},${text}]`]))],
    [
      "an odd id",
      [...INVALID, ...MALFORMED],
      () => withId(draw.pick(["null", "1.5", "true", "{}", "[1]", "9007199254740993"])),
    ],
    ["an id that nothing can keep", UNKEPT, () => withId(draw.pick(["1e400", '"\\u0000"', '"\\ud800"']))],
    ["another id", SAME, () => withId(draw.pick(['"x"', "-1", "0", "1e3", '""', '"__proto__"']))],
    ["no id", INVALID, () => of(text.replace(`"id":${whole.id},`, ""))],
    ["an id twice", coded("DUPLICATE_FIELD"), () => beside('"id":7')],
    ["another version", INVALID, () => of(text.replace('"2.0"', draw.pick(['"1.0"', "2.0", "null", '"2.0 "'])))],
    ["a result beside it", INVALID, () => beside(draw.pick(['"result":{}', '"error":{"code":1,"message":"a"}']))],
    ["an odd member", [...INVALID, ...UNKEPT], () => beside(`${JSON.stringify(odd)}:${text}`)],
    [
      "params in a list",
      [...INVALID, ...BAD_PARAMS],
      () => of(text.replace(JSON.stringify(whole.params), JSON.stringify([whole.params]))),
    ],
    [
      "a method in capitals",
      UNKNOWN_METHOD,
      () => named(draw.pick([method.toUpperCase(), method.replace(/^./, (each) => each.toUpperCase())])),
    ],
    [
      "white space in its method",
      UNKNOWN_METHOD,
      () => named(draw.pick([` ${method}`, `${method}\t`, `${method}\u00a0`])),
    ],
    ["U+0000 in its method", UNKEPT, () => named(`${method}\u0000`)],
    [
      "another slash in its method",
      UNKNOWN_METHOD,
      () => named(method.replace("/", draw.pick(["//", "\\", "\u2044", ".", "%2f", "/./"]))),
    ],
    [
      "letters of another script in its method",
      UNKNOWN_METHOD,
      () => named(method.replace(/[aeo]/, (each) => ({ a: "\u0430", e: "\u0435", o: "\u043e" })[each] ?? each)),
    ],
    [
      "a method of no list",
      UNKNOWN_METHOD,
      () => named(draw.pick(["vendor/run", "tools/execute", "rpc.call", "constructor", "__proto__", ""])),
    ],
    [
      "a method that is no text",
      INVALID,
      () => of(text.replace(JSON.stringify(method), draw.pick([`["${method}"]`, "null", "1"]))),
    ],
    [
      "an answer",
      [...INVALID, ...HEARD, ...coded("RPC_32020", "INVALID_FIELD")],
      () => of(text.replace(`"method":${JSON.stringify(method)},"params"`, '"result"')),
    ],
    ["deep", coded("BODY_TOO_DEEP"), () => beside(`"x":${"[".repeat(100)}${"]".repeat(100)}`)],
    ["nothing", [...MALFORMED, ...INVALID], () => of(draw.pick(["", "null", "{}", "5"]))],
  ];
  return draw.disguise("mcp json", cases);
}

function disguisedHeaders(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const { method, params } = plain;
  const request = lab.request(lane, generation, method, params);
  const isStateless = generation === "stateless";
  const without = (name: string): readonly string[] => request.headers.filter((each) => !each.startsWith(`${name}:`));
  const set = (name: string, ...values: readonly string[]): GatewayRequest => ({
    ...request,
    headers: [...without(name), ...values.map((value) => `${name}: ${value}`)],
  });
  const MISMATCH = coded("RPC_32020");
  const isNamed =
    request.headers.some((each) => each.startsWith("mcp-name:")) ||
    ["tools/call", "prompts/get", "resources/read", "resources/subscribe"].includes(method);
  const GENERATION = [
    ...MISMATCH,
    ...INVALID,
    ...BAD_PARAMS,
    ...UNKNOWN_METHOD,
    ...coded("MCP_SESSION_NOT_FOUND", "RPC_32022", "RPC_32004"),
  ];
  const cases: Disguises = [
    ["another method", MISMATCH, () => set("mcp-method", draw.pick(["ping", "tools/list", "Tools/Call"]))],
    ["two methods", MISMATCH, () => set("mcp-method", method, "ping")],
    [
      "another name",
      isNamed ? MISMATCH : [...SAME, ...MISMATCH],
      () => set("mcp-name", draw.pick(["read", "greet", "file:///public/keys", "=?base64?cmVhZA==?="])),
    ],
    ["two names", isNamed ? MISMATCH : [...SAME, ...MISMATCH], () => set("mcp-name", "read", "pay")],
    [
      "an argument that differs",
      [...SAME, ...MISMATCH],
      () => set("mcp-param-amount", draw.pick(["1", "=?base64?MQ==?=", "0", "1, 900", "=?base64?@?="])),
    ],
    [
      "no generation",
      isStateless ? [...GENERATION, ...SAME] : SAME,
      () => ({ ...request, headers: [...without("mcp-protocol-version")] }),
    ],
    [
      "another generation",
      [...GENERATION, ...SAME],
      () => set("mcp-protocol-version", draw.pick(["2025-11-25", "2026-07-28", "1", "2026-07-28, 2025-11-25"])),
    ],
    ["another agent", coded("AGENT_NOT_ALLOWED"), () => set("x-agent-id", lane.stranger.agentId)],
    [
      "two keys",
      [...coded("HTTP_403", "TOO_MANY_WRONG_KEYS")],
      () => ({ ...request, headers: [...request.headers, `x-api-key: ${lane.stranger.key}`] }),
    ],
    [
      "a session of another",
      isStateless ? SAME : coded("MCP_SESSION_NOT_FOUND"),
      () => set("mcp-session-id", lane.stranger.session ?? ""),
    ],
    [
      "a session twice",
      isStateless ? SAME : coded("MCP_SESSION_NOT_FOUND"),
      () => set("mcp-session-id", lane.own.session ?? "", lane.own.session ?? ""),
    ],
    [
      "no session",
      isStateless ? SAME : coded("INVALID_FIELD"),
      () => ({ ...request, headers: without("mcp-session-id") }),
    ],
    [
      "a foreign site",
      coded("ORIGIN_NOT_ALLOWED", "MCP_ORIGIN_NOT_ALLOWED", "RPC_32000"),
      () => ({ ...request, headers: [...request.headers, "origin: https://evil.example"] }),
    ],
    [
      "another type accepted",
      [...SAME, ...coded("RPC_32000", "HTTP_406")],
      () => set("accept", draw.pick(["text/html", "*/*", "application/json"])),
    ],
    ["a resumed stream", SAME, () => ({ ...request, headers: [...request.headers, "last-event-id: 1"] })],
    [
      "headers that redirect",
      SAME,
      () => ({
        ...request,
        headers: [
          ...request.headers,
          draw.pick(["x-http-method-override: GET", "x-original-url: /healthz", "x-forwarded-host: a"]),
        ],
      }),
    ],
  ];
  return draw.disguise("mcp headers", cases);
}

function disguisedHttp(draw: Draw, lab: GatewayLab, { lane, generation, plain }: Situation): GatewayRequest {
  const request = lab.request(lane, generation, plain.method, plain.params);
  const { body } = request;
  const server = serverOf(lane, generation);
  const by = (method: string): GatewayRequest => ({ ...request, line: request.line.replace("POST", method) });
  const to = (path: string): GatewayRequest => ({ ...request, line: `POST ${path} HTTP/1.1` });
  const header = (line: string, more: Partial<GatewayRequest> = {}): GatewayRequest => ({
    ...request,
    headers: [...request.headers, line],
    ...more,
  });
  const NO_TYPE = coded("UNSUPPORTED_MEDIA_TYPE");
  const NO_REQUEST = coded("MALFORMED_REQUEST");
  const cases: Disguises = [
    ["chunks", SAME, () => header("transfer-encoding: chunked", { framed: chunked(body, 1 + draw.below(40)) })],
    ["gzip", NO_TYPE, () => header("content-encoding: gzip", { body: gzipSync(body) })],
    ["deflate", NO_TYPE, () => header("content-encoding: deflate", { body: deflateSync(body) })],
    [
      "another type",
      NO_TYPE,
      () => ({
        ...request,
        headers: request.headers.map((each) =>
          each.replace(
            "content-type: application/json",
            `content-type: ${draw.pick(["text/plain", "application/x-www-form-urlencoded", "application/json-seq"])}`,
          ),
        ),
      }),
    ],
    ["put", coded("RPC_32000", "METHOD_NOT_ALLOWED"), () => by(draw.pick(["PUT", "PATCH", "OPTIONS"]))],
    [
      "a length beside chunks",
      NO_REQUEST,
      () =>
        header("transfer-encoding: chunked", {
          headers: [...request.headers, "transfer-encoding: chunked", `content-length: ${body.length}`],
          framed: chunked(body, 8),
        }),
    ],
    [
      "another path",
      coded("ROUTE_NOT_FOUND", "METHOD_NOT_ALLOWED", "MCP_SERVER_NOT_FOUND", "MALFORMED_REQUEST"),
      () =>
        to(
          draw.pick([
            `/mcp/${server}/`,
            `/mcp//${server}`,
            `/mcp/./${server}`,
            `/MCP/${server}`,
            `/mcp/${server}%00`,
            `/mcp/${server};a`,
            `/mcp/%68${server.slice(1)}`,
            `/mcp/none`,
            "/mcp/",
            `/mcp/${server}/x`,
          ]),
        ),
    ],
    [
      "another path to the same",
      [...SAME, ...coded("ROUTE_NOT_FOUND")],
      () => to(draw.pick([`/mcp/${server.toUpperCase()}`, `/mcp/${server}?a=b`, `http://a/mcp/${server}`])),
    ],
    ["utf-16", MALFORMED, () => ({ ...request, body: Buffer.from(body.toString(), "utf16le") })],
    ["an expectation", coded("EXPECTATION_FAILED"), () => header("expect: x")],
    [
      "too great",
      coded("BODY_TOO_LARGE"),
      () => ({ ...request, framed: body, headers: [...request.headers, "content-length: 99999999999"] }),
    ],
  ];
  return draw.disguise("mcp http", cases);
}

/** Notifications, answers and control messages that name nothing open, or something of others. */
const FOREIGN = {
  run: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const generation = draw.pick(GENERATIONS);
      const isStateless = generation === "stateless";
      const other = `${lane.name}-other`;
      const task = (taskId: unknown, more: object = {}): GatewayRequest =>
        lab.request(
          lane,
          generation,
          draw.pick(
            isStateless ? ["tasks/get", "tasks/cancel", "tasks/update"] : ["tasks/get", "tasks/cancel", "tasks/result"],
          ),
          { taskId, ...more },
        );
      const said = (method: string, params: object): GatewayRequest =>
        lab.post(
          lane,
          generation,
          JSON.stringify({ jsonrpc: "2.0", method, params: isStateless ? { ...params } : params }),
          { method },
        );
      const NO_TASK = coded("RPC_32602", "RPC_32021");
      const DROPPED = [...coded("INVALID_FIELD"), ...HEARD, ...INVALID, ...UNKNOWN_METHOD, ...BAD_PARAMS];
      const cases: Disguises = [
        ["a task", NO_TASK, () => task(other)],
        [
          "a task in another spelling",
          [...NO_TASK, ...coded("RPC_32020")],
          () => task(draw.pick([`${other} `, ` ${other}`, other.toUpperCase(), `${other}\u200b`])),
        ],
        ["a task in a list", NO_TASK, () => task([other])],
        [
          "a task beside an own one",
          NO_TASK,
          () => task(`${lane.name}-own`, { _meta: { "io.modelcontextprotocol/related-task": { taskId: other } } }),
        ],
        ["a task of the gateway", NO_TASK, () => task(`agentcontrol.${other}`)],
        [
          "a progress",
          DROPPED,
          () => said("notifications/progress", { progressToken: draw.pick([1, "1", null]), progress: 1 }),
        ],
        [
          "a cancellation",
          DROPPED,
          () => said("notifications/cancelled", { requestId: draw.pick([1, "1", lane.lastId]) }),
        ],
        ["a status", DROPPED, () => said("notifications/tasks/status", { taskId: other, status: "cancelled" })],
        [
          "a notification of no list",
          DROPPED,
          () =>
            said(
              draw.pick([
                "notifications/vendor",
                "notifications/Cancelled",
                "sampling/createMessage",
                "tools/call",
                "resources/read",
              ]),
              {
                name: "shred",
                arguments: {},
                uri: `${FORBIDDEN.folder}keys`,
              },
            ),
        ],
        [
          "an answer",
          DROPPED,
          () =>
            lab.post(lane, generation, JSON.stringify({ jsonrpc: "2.0", id: draw.pick([1, "1", "s1"]), result: {} }), {
              method: "tools/call",
            }),
        ],
        [
          "an end of a subscription",
          isStateless ? UNKNOWN_METHOD : BAD_PARAMS,
          () => lab.request(lane, generation, "resources/unsubscribe", { uri: draw.pick(["a:1", FORBIDDEN.folder]) }),
        ],
        [
          "a session, by DELETE",
          coded("MCP_SESSION_NOT_FOUND"),
          () => {
            const request = lab.request(lane, "stateful", "ping", {});
            const headers = [
              ...request.headers.filter((each) => !each.startsWith("mcp-session-id")),
              `mcp-session-id: ${lane.stranger.session}`,
            ];
            return { ...request, headers, line: request.line.replace("POST", draw.pick(["DELETE", "GET"])) };
          },
        ],
      ];
      await lab.attempt(draw, lane, draw.disguise("mcp foreign", cases));
    }),
  /** The agent's own task is there. */
  control: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const generation = draw.pick(GENERATIONS);
      const { reached, body } = await lab.ask(
        lab.request(lane, generation, "tasks/get", { taskId: `${lane.name}-own` }),
      );
      lab.assertArrivals(lane, "a task of the agent");
      if (reached === "same" || reached.reason !== "PASSED") throw new HostileFinding(`the agent's own task: ${body}`);
    }),
};

/** An approval holds for one request, exactly as it was approved. */
const APPROVED = {
  run: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const generation = draw.pick(GENERATIONS);
      const args = { to: `vendor ${draw.uuid()}` };
      await approve(lab, lane, generation, args);
      const ask = (changed: object, more: object = {}, party = lane.own): GatewayRequest =>
        lab.request(lane, generation, "tools/call", { name: "wire", arguments: changed, ...more }, { party });
      const other = generation === "stateful" ? "stateless" : "stateful";
      const cases: Disguises = [
        ["other arguments", SAME, () => ask({ to: `${args.to}x` })],
        ["arguments in capitals", SAME, () => ask({ to: args.to.toUpperCase() })],
        ["one more argument", SAME, () => ask({ ...args, amount: 1 })],
        ["a state beside them", generation === "stateless" ? SAME : PASSED, () => ask(args, { requestState: "x" })],
        ["a member beside them", PASSED, () => ask(args, { input: { to: "x" }, _meta: { "vendor/x": 1 } })],
        ["a bound member of _meta", SAME, () => ask(args, { _meta: { "io.modelcontextprotocol/x": 1 } })],
        ["another agent", SAME, () => ask(args, {}, lane.stranger)],
        ["another server", SAME, () => lab.request(lane, other, "tools/call", { name: "wire", arguments: args })],
      ];
      const request = draw.disguise("mcp approval", cases);
      const answer = await lab.ask(request);
      lab.judge(draw, lane, answer, request, args);
    }),
  /** An approval lets its request pass once, however many ask at the same moment. */
  control: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const generation = draw.pick(GENERATIONS);
      const args = { to: `vendor ${draw.uuid()}` };
      await approve(lab, lane, generation, args);
      const ask = () => lab.ask(lab.request(lane, generation, "tools/call", { name: "wire", arguments: args }));
      await Promise.all(Array.from({ length: 4 }, ask));
      const { length } = lab.assertArrivals(lane, "an approved request", args);
      if (length !== 1) throw new HostileFinding(`an approved request reached the server ${length} times`);
    }),
};

async function approve(lab: GatewayLab, lane: Lane, generation: Generation, args: object): Promise<void> {
  const { json, body } = await lab.ask(lab.request(lane, generation, "tools/call", { name: "wire", arguments: args }));
  const id = decisionOf(json)?.escalation_id;
  if (typeof id !== "string") throw new HostileFinding(`an escalated request tells of no escalation: ${body}`);
  await lab.service.resolve(id, "approved");
}

/** Many requests at once on one session, some with the same id: none of them carries a refused one with it. */
const CROWD = {
  run: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const requests = Array.from({ length: 2 + draw.below(6) }, () => {
        const { generation, plain } = situation(draw, lane);
        const id = draw.once(2) ? lane.lastId : ++lane.lastId;
        return lab.request(lane, generation, plain.method, draw.once(3) ? plain.allowed : plain.params, { id });
      });
      draw.use("mcp crowd: at once", SAME);
      const answers = await Promise.all(requests.map((each) => lab.ask(each)));
      const faulty = answers.find(({ status }) => !(status >= 200 && status < 500));
      lab.judge(
        draw,
        lane,
        { ...(faulty ?? (answers[0] as (typeof answers)[0])), reached: "same" },
        requests[0] as GatewayRequest,
      );
    }),
  control: (lab: GatewayLab, draw: Draw): Promise<void> =>
    lab.inLane(async (lane) => {
      const { generation, plain } = situation(draw, lane);
      await lab.assertBoth(lane, generation, plain);
    }),
};

const isTool = ({ method }: McpPlain): boolean => method === "tools/call";
const isPay = ({ params }: McpPlain): boolean => params.name === "pay";
const isPlace = ({ rule }: McpPlain): boolean => /folder|site/.test(rule);
const isPrompt = ({ method }: McpPlain): boolean => method === "prompts/get" || method === "completion/complete";

/** Families of cases of the gateway, by what is hostile about them. */
export const MCP_CASES = {
  "mcp tools": family(disguisedTool, (plain) => isTool(plain) && !isPay(plain)),
  "mcp arguments": family(disguisedArguments, isPay),
  "mcp places": family(disguisedPlace, isPlace),
  "mcp prompts": family(disguisedPrompt, isPrompt),
  "mcp texts": family(disguisedText),
  "mcp headers": family(disguisedHeaders),
  "mcp requests": family(disguisedHttp),
  "mcp things of others": FOREIGN,
  "mcp approvals": APPROVED,
  "mcp crowds": CROWD,
};
