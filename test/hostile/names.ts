/* Hostile forms of names, and of the places that a tool, a server and its arguments are named in. */

import type { JsonObject } from "@bufbuild/protobuf";
import { disguised, disguisedSame, numberDisguised, ODD_MEMBERS, textDisguised, withMembers } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { FORBIDDEN_TEXT, type Lab, type Plain, SECRET } from "./lab.ts";

type Request = Plain["request"];
type Form = (draw: Draw, plain: Plain) => Request;

const argumentsOf = ({ request }: Plain): JsonObject => (request.metadata?.arguments ?? {}) as JsonObject;
const withMetadata = (request: Request, metadata: object): Request => ({
  ...request,
  metadata: metadata as JsonObject,
});

/** A request with noise that no rule looks at. */
function noisy(draw: Draw, request: Request): Request {
  const noise = { ...request, actionContent: SECRET };
  if (draw.once(3)) return noise;
  const members = Array.from({ length: 1 + draw.below(3) }, () => [draw.pick(ODD_MEMBERS), SECRET] as const);
  return withMetadata(noise, withMembers({ ...request.metadata, note: SECRET }, members));
}

/** A disguised action type. */
const typeForm: Form = (draw, { request }) => ({ ...request, actionType: disguised(draw, request.actionType ?? "") });

const SEPARATORS = ["/", ".", "__"];

/** A disguised tool, in one or several of the places that name it. */
const toolForm: Form = (draw, { request }) => {
  const { tool = "", ...rest } = request;
  const other = draw.pick<unknown>([
    "harmless6",
    disguisedSame(draw, tool),
    null,
    "",
    " ",
    6,
    [tool],
    { name: tool },
    true,
  ]);
  return draw.pick<() => Request>([
    () => ({ ...rest, tool: disguisedSame(draw, tool) }),
    () => withMetadata(rest, { ...rest.metadata, tool: disguisedSame(draw, tool) }),
    () => withMetadata(request, { ...rest.metadata, tool: other }),
    () => withMetadata({ ...request, tool: "harmless6" }, { ...rest.metadata, tool }),
    () =>
      withMetadata(
        { ...request, tool: disguisedSame(draw, tool) },
        { ...rest.metadata, tool: disguisedSame(draw, tool) },
      ),
    () =>
      withMetadata(
        { ...rest, actionType: disguisedSame(draw, tool) },
        { ...rest.metadata, tool: draw.pick([null, "", " "]) },
      ),
    () => ({ ...rest, actionType: disguisedSame(draw, tool) }),
  ])();
};

/** A server's tool in one of the forms that gateways use. */
const serverForm: Form = (draw, { request }) => {
  const name = draw.pick(["write_file", "write_", "write_x.y", "write_a__b", "write_a/b"]);
  const prefixed = `${draw.pick(["", "mcp__"])}fs${draw.pick(SEPARATORS)}${name}`;
  const spelled = (text: string): string => disguisedSame(draw, text);
  const { tool: _, metadata: __, ...rest } = request;
  return draw.pick<() => Request>([
    () => ({ ...rest, tool: spelled(prefixed) }),
    () => withMetadata(rest, { tool: spelled(prefixed) }),
    () => withMetadata({ ...rest, tool: spelled(name) }, { mcp_server: spelled("fs") }),
    () => withMetadata({ ...rest, tool: spelled(prefixed) }, { mcp_server: spelled("fs") }),
    () =>
      withMetadata({ ...rest, tool: prefixed }, { mcp_server: draw.pick<unknown>(["other", null, "", ["fs"], 5, {}]) }),
    () => withMetadata(rest, { tool: spelled(name), mcp_server: spelled("fs") }),
    () => withMetadata({ ...rest, tool: name }, { mcp_server: draw.pick<unknown>([["fs"], { name: "fs" }, 7, true]) }),
  ])();
};

/** The arguments of a call in another form, beside or inside of something else. */
const sourceForm: Form = (draw, plain) => {
  const { request } = plain;
  const args = argumentsOf(plain);
  const text = JSON.stringify(args);
  const [[name = "", value] = []] = Object.entries(args);
  const harmless = { amount: 1, kind: "retail", count: 1, party: { name: "x" } };
  const twice = (first: unknown, second: unknown): string =>
    `{${JSON.stringify(name)}:${JSON.stringify(first)},${draw.pick([JSON.stringify(name), escapedKey(name)])}:${JSON.stringify(second)}}`;
  const forms: readonly (() => object)[] = [
    () => ({ arguments: text }),
    () => ({ arguments: text, ...harmless }),
    () => ({ arguments: args, ...harmless }),
    () => ({ arguments: [args], ...harmless }),
    () => ({ arguments: JSON.stringify([args]), ...harmless }),
    () => ({ arguments: JSON.stringify(text), ...harmless }),
    () => ({ arguments: null, ...args }),
    () => ({ ...args }),
    () => ({ arguments: twice(value, 1) }),
    () => ({ arguments: twice(1, value) }),
    () => ({ arguments: draw.pick(["\ufeff", " \n", "/**/", "\u00a0", ")]}'"]) + text, ...harmless }),
    () => ({ arguments: text + draw.pick([" ", "\u0000", "{}", ",", "//", '{"amount":1}']), ...harmless }),
    () => ({ arguments: `{${escapedKey(name)}:${JSON.stringify(value)}}` }),
    () => ({
      arguments: draw.pick<unknown>([5, true, "", " ", "null", "{", "[]", text.slice(1)]),
      ...harmless,
      ...args,
    }),
    () => ({ arguments: withMembers(args, [[draw.pick(ODD_MEMBERS), harmless]]) }),
    () => withMembers({ arguments: args }, [[draw.pick(["__proto__", "constructor"]), { arguments: harmless }]]),
    () => ({ arguments: JSON.stringify(args).replace("{", `{"__proto__":${JSON.stringify(harmless)},`) }),
    () => ({ arguments: { ...args, deep: nested(draw) } }),
    () => ({ arguments: JSON.stringify({ ...args, deep: nested(draw) }) }),
    () => ({ arguments: args, Arguments: harmless, "arguments ": harmless, args: harmless }),
  ];
  return withMetadata(request, draw.pick(forms)());
};

const escapedKey = (name: string): string =>
  `"${[...name].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`;

function nested(draw: Draw): unknown {
  let value: unknown = SECRET;
  const isList = draw.once(2);
  for (let depth = draw.pick([3, 40, 58, 61, 64, 70, 500, 2_000]); depth > 0; depth--)
    value = isList ? [value] : { v: value };
  return value;
}

/** A value in another form, that is the same, or none that the schema admits. */
const valueForm: Form = (draw, plain) => {
  const { request, on } = plain;
  if (on === "fact") {
    const [[name = ""] = []] = Object.entries(request.metadata ?? {});
    const value = numberDisguised(draw, 50_001 + draw.below(10_000_000));
    const fact = { [name]: value };
    const placed = draw.pick<object>([
      fact,
      { arguments: fact },
      { ...fact, arguments: {} },
      { ...fact, arguments: { [name]: null } },
    ]);
    return withMetadata(request, placed);
  }
  const args = argumentsOf(plain);
  if ("amount" in args) return withArguments(request, { amount: numberDisguised(draw, 1_000 + draw.below(1_000_000)) });
  if ("kind" in args)
    return withArguments(request, {
      kind: draw.pick<unknown>([textDisguised(draw, "offshore"), ["offshore"], 5, true, {}]),
    });
  if ("party" in args) {
    const name = draw.pick<unknown>([textDisguised(draw, FORBIDDEN_TEXT), [FORBIDDEN_TEXT], 5, { name: 1 }]);
    return withArguments(request, { party: draw.pick<unknown>([{ name }, { name }, [{ name }], "x", 5]) });
  }
  const count = numberDisguised(draw, 90);
  return withArguments(
    request,
    draw.pick<object>([{ count }, { count: 5, code: "A" }, { count: 5, more: 1 }, {}, { code: "a" }]),
  );
};

const withArguments = (request: Request, args: object): Request =>
  withMetadata(request, { arguments: args as JsonObject });

/** An id that is nearly one of the agent's, or beside another one. */
const authorityForm: Form = (draw, { request }) => {
  const { agentId = "", sessionId, onBehalfOf } = request;
  const spelled = (id: string): string => draw.pick([id, id.toUpperCase(), `${id} `, disguisedSame(draw, id)]);
  return {
    ...request,
    actionType: `${draw.word()}.${draw.word()}`,
    agentId: draw.once(3) ? spelled(agentId) : agentId,
    ...(sessionId !== undefined && { sessionId: spelled(sessionId) }),
    ...(onBehalfOf !== undefined && { onBehalfOf: spelled(onBehalfOf) }),
    ...(draw.once(3) && { escalationId: `esc_${draw.word()}` }),
    ...(draw.once(4) && { grantId: `grt_${draw.word()}` }),
    ...(draw.once(2) && { requestId: draw.uuid() }),
  };
};

/** A form that any plain request may take: the same with noise. */
const anyForm: Form = (draw, { request }) => noisy(draw, request);

const send = (forms: Form, on: readonly Plain["on"][]) => async (lab: Lab, draw: Draw) => {
  const plain = draw.pick(lab.plains.filter((each) => on.includes(each.on)));
  const form = forms(draw, plain);
  const isExact = draw.once(2);
  await lab.attempt(plain.verdict, isExact ? form : noisy(draw, form), plain.key);
};

/** Cases of names and sources, by what is hostile about them. */
export const NAME_CASES = {
  "disguised action types": send(typeForm, ["type"]),
  "disguised tools": send(toolForm, ["tool"]),
  "tools of servers": send(serverForm, ["server"]),
  "sources of arguments": send(sourceForm, ["arguments"]),
  "values of arguments and facts": send(valueForm, ["arguments", "fact"]),
  "ended authority": send(authorityForm, ["authority"]),
  noise: send(anyForm, ["type", "tool", "server", "arguments", "fact", "authority"]),
};
