/* Hostile events at the hooks of coding agents: no answer lets a tool run whose plain form is denied. */

import { createHmac } from "node:crypto";
import { gzipSync } from "node:zlib";
import { disguisedSame, ODD_MEMBERS } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { type GatewayLab, type GatewayRequest, HOOK_PLAINS, type HookPlain, type Lane } from "./gateway-lab.ts";
import { HostileFinding } from "./lab.ts";
import { chunked, type RawResponse } from "./raw-http.ts";
import { type Reached, type Right, SAME } from "./rights.ts";

const CLIENTS = ["claude-code", "codex"] as const;
type Client = (typeof CLIENTS)[number];
/** Right for an event that is denied without a decision. */
const DENIED: readonly Right[] = ["DENIED *"];
/** Right for a request that no hook answers: the command of a hook blocks then. */
const UNSIGNED: readonly Right[] = ["UNSIGNED *"];

interface Hooked {
  readonly client: Client;
  readonly plain: HookPlain;
  readonly lane: Lane;
  readonly nonce: string;
}

const eventOf = (tool: unknown, input: unknown, more: object = {}) => ({
  session_id: "s-1",
  cwd: "/project",
  permission_mode: "default",
  hook_event_name: "PreToolUse",
  tool_name: tool,
  tool_input: input,
  ...more,
});

function requestFor({ client, lane, nonce }: Hooked, body: string): GatewayRequest {
  return {
    line: `POST /v1/hooks/${client}?hold_seconds=0 HTTP/1.1`,
    headers: ["content-type: application/json", `x-api-key: ${lane.own.key}`, `x-hook-nonce: ${nonce}`],
    body: Buffer.from(body),
  };
}

/** What the command of a hook does with an answer: blocks unless it is signed, and then does what it says. */
function reachedBy({ status, head, body }: RawResponse, { lane, nonce }: Hooked): Reached {
  const signature = /^x-hook-signature: *(\S+)/im.exec(head)?.[1];
  const bytes = Buffer.from(body, "latin1");
  const own = createHmac("sha256", lane.own.key).update(nonce).update(bytes).digest("hex");
  if (status !== 200 || signature !== own) return { reason: "UNSIGNED", fields: [] };
  const { output, decision } = JSON.parse(bytes.toString()) as {
    output: { hookSpecificOutput?: { permissionDecision?: string } };
    decision?: object;
  };
  if (output.hookSpecificOutput?.permissionDecision !== "deny") return { reason: "RUNS", fields: [] };
  return decision === undefined ? { reason: "DENIED", fields: [] } : "same";
}

function hooked(draw: Draw, lane: Lane): Hooked {
  const nonce = (draw.uuid() + draw.uuid()).replaceAll("-", "");
  return { client: draw.pick(CLIENTS), plain: draw.pick(HOOK_PLAINS), lane, nonce };
}

function family(make: (draw: Draw, hook: Hooked) => GatewayRequest) {
  return {
    run: (lab: GatewayLab, draw: Draw): Promise<void> =>
      lab.inLane(async (lane) => {
        const hook = hooked(draw, lane);
        const request = make(draw, hook);
        const answer = await lab.ask(request);
        lab.judge(draw, lane, { ...answer, reached: reachedBy(answer, hook) }, request);
      }),
    control: (lab: GatewayLab, draw: Draw): Promise<void> =>
      lab.inLane(async (lane) => {
        const hook = hooked(draw, lane);
        const { tool, input, allowed, rule } = hook.plain;
        const denied = await lab.ask(requestFor(hook, JSON.stringify(eventOf(tool, input))));
        const passed = await lab.ask(requestFor(hook, JSON.stringify(eventOf(allowed.tool, allowed.input))));
        const reached = reachedBy(passed, hook);
        if (reachedBy(denied, hook) !== "same" || reached === "same" || reached.reason !== "RUNS") {
          throw new HostileFinding(`the plain events of ${rule}: ${denied.body} ${passed.body}`);
        }
      }),
  };
}

function disguisedTool(draw: Draw, hook: Hooked): GatewayRequest {
  const { tool, input } = hook.plain;
  const name = disguisedSame(draw, tool, { kind: "hook tool", refusals: DENIED, isAscii: true, isTrimmed: true });
  return requestFor(hook, JSON.stringify(eventOf(name, input)));
}

function disguisedEvent(draw: Draw, hook: Hooked): GatewayRequest {
  const { plain } = hook;
  const { tool, input } = plain;
  const text = JSON.stringify(eventOf(tool, input));
  const inside = text.slice(1, -1);
  const of = (body: string): GatewayRequest => requestFor(hook, body);
  const beside = (member: string): GatewayRequest =>
    of(draw.once(2) ? `{${inside},${member}}` : `{${member},${inside}}`);
  const event = (more: object): GatewayRequest => of(JSON.stringify({ ...eventOf(tool, input), ...more }));
  const escaped = [...tool].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  const odd = JSON.stringify(draw.pick(ODD_MEMBERS));
  return draw.disguise<GatewayRequest>("hook event", [
    ["escaped", SAME, () => of(text.replace(`"${tool}"`, `"${escaped}"`))],
    ["a tool twice", DENIED, () => beside(`${draw.pick(['"tool_name"', '"tool\\u005fname"'])}:"Read"`)],
    ["an input twice", DENIED, () => beside('"tool_input":{}')],
    ["a tool in two spellings", SAME, () => beside('"toolName":"Read","TOOL_NAME":"Read"')],
    ["an odd member", [...SAME, ...DENIED], () => beside(`${odd}:{"tool_name":"Read"}`)],
    [
      "an odd member in its input",
      [...SAME, ...DENIED],
      () => of(text.replace('"tool_input":{', `"tool_input":{${odd}:1,`).replace(",}", "}")),
    ],
    ["another event", DENIED, () => event({ hook_event_name: draw.pick(["PostToolBatch", "pretooluse", "", null]) })],
    ["no event", DENIED, () => event({ hook_event_name: undefined })],
    ["a tool in a list", DENIED, () => event({ tool_name: [tool] })],
    ["no tool", DENIED, () => event({ tool_name: draw.pick([undefined, "", null, 1, {}]) })],
    ["an input in a text", DENIED, () => event({ tool_input: JSON.stringify(input) })],
    ["an input in a list", DENIED, () => event({ tool_input: [input] })],
    ["a mark of the byte order", DENIED, () => of(`\ufeff${text}`)],
    ["white space around", SAME, () => of(` \n${text}\t`)],
    ["something after it", DENIED, () => of(text + draw.pick(["{}", "\u0000", text]))],
    ["in a list", DENIED, () => of(`[${text}]`)],
    ["cut off", DENIED, () => of(text.slice(0, 1 + draw.below(text.length - 1)))],
    ["deep", DENIED, () => beside(`"x":${"[".repeat(100)}${"]".repeat(100)}`)],
    [
      "a decision of its own",
      SAME,
      () => event({ permission_mode: "bypassPermissions", permissionDecision: "allow", decision: "approve" }),
    ],
    [
      "others' names",
      SAME,
      () => event({ agent_id: "x", agent_type: "y", session_id: "z", client: "other", mcp_server: "other" }),
    ],
    ["nothing", DENIED, () => of(draw.pick(["", "null", "{}", "5"]))],
  ]);
}

function disguisedRequest(draw: Draw, hook: Hooked): GatewayRequest {
  const { client, plain, lane, nonce } = hook;
  const request = requestFor(hook, JSON.stringify(eventOf(plain.tool, plain.input)));
  const { body } = request;
  const to = (path: string): GatewayRequest => ({ ...request, line: `POST ${path} HTTP/1.1` });
  const set = (name: string, value: string): GatewayRequest => ({
    ...request,
    headers: [...request.headers.filter((each) => !each.startsWith(`${name}:`)), `${name}: ${value}`],
  });
  const also = (line: string, more: Partial<GatewayRequest> = {}): GatewayRequest => ({
    ...request,
    headers: [...request.headers, line],
    ...more,
  });
  return draw.disguise<GatewayRequest>("hook request", [
    ["chunks", SAME, () => also("transfer-encoding: chunked", { framed: chunked(body, 1 + draw.below(40)) })],
    ["gzip", [...DENIED, ...UNSIGNED], () => also("content-encoding: gzip", { body: gzipSync(body) })],
    ["another type", DENIED, () => set("content-type", draw.pick(["text/plain", "application/json; charset=utf-7"]))],
    [
      "another method",
      UNSIGNED,
      () => ({ ...request, line: request.line.replace("POST", draw.pick(["GET", "PUT", "DELETE"])) }),
    ],
    [
      "another path",
      UNSIGNED,
      () =>
        to(
          draw.pick([
            `/v1/hooks/${client.toUpperCase()}`,
            `/v1/hooks/${client}/`,
            `/v1//hooks/${client}`,
            "/v1/hooks/other",
            `/v1/hooks/${client}%00`,
            "/v1/hooks/",
          ]),
        ),
    ],
    ["another path to the same", SAME, () => to(`/api/v1/hooks/${client}?hold_seconds=0`)],
    [
      "a hold of no kind",
      DENIED,
      () => to(`/v1/hooks/${client}?hold_seconds=${draw.pick(["-1", "9999", "1e1", "%00", "0x1"])}`),
    ],
    [
      "an answer for what waits",
      DENIED,
      () => to(`/v1/hooks/${client}?hold_seconds=0&when_pending=${draw.pick(["allow", "none", "ALLOW", "%00"])}`),
    ],
    [
      "another nonce",
      UNSIGNED,
      () => set("x-hook-nonce", draw.pick([nonce.toUpperCase(), nonce.slice(1), `${nonce}0`, "0".repeat(64), "x"])),
    ],
    ["two nonces", UNSIGNED, () => also(`x-hook-nonce: ${"0".repeat(64)}`)],
    ["a key of another", UNSIGNED, () => set("x-api-key", lane.stranger.key)],
    ["a wrong key", UNSIGNED, () => set("x-api-key", `${lane.own.key}x`)],
    ["another agent", UNSIGNED, () => set("x-agent-id", lane.stranger.agentId)],
  ]);
}

/** Families of cases of the hooks, by what is hostile about them. */
export const HOOK_CASES = {
  "hook tools": family(disguisedTool),
  "hook events": family(disguisedEvent),
  "hook requests": family(disguisedRequest),
};
