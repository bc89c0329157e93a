/* Hostile forms of names, and of the places that a tool, a server and its arguments are named in. */

import type { JsonObject } from "@bufbuild/protobuf";
import {
  ACTION_TYPE,
  disguised,
  disguisedSame,
  numberDisguised,
  ODD_MEMBERS,
  textDisguised,
  withMembers,
} from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { FORBIDDEN_TEXT, type Lab, type Plain, SECRET } from "./lab.ts";
import { type Right, refused, SAME } from "./rights.ts";

type Request = Plain["request"];
type Form = (draw: Draw, plain: Plain) => Request;
type Disguises<T> = Parameters<typeof Draw.prototype.disguise<T>>[1];

const TOOL = { kind: "tool", refusals: refused("tool"), isAscii: true };
const METADATA_TOOL = { ...TOOL, refusals: refused("metadata.tool") };
const SERVER = { kind: "server", refusals: refused("metadata.mcp_server") };

const argumentsOf = ({ request }: Plain): JsonObject => (request.metadata?.arguments ?? {}) as JsonObject;
const withMetadata = (request: Request, metadata: object): Request => ({
  ...request,
  metadata: metadata as JsonObject,
});

const isStorable = (name: string): boolean => name.isWellFormed() && !name.includes("\u0000");

/** A member of an odd name, with what is right for it within `field`. */
function oddMember(draw: Draw, value: unknown, field: string): readonly [string, unknown] {
  const name = draw.pick(ODD_MEMBERS);
  draw.use(`odd member ${JSON.stringify(name)}`, isStorable(name) ? SAME : refused(field));
  return [name, value];
}

/** A request with noise that no rule looks at. */
function noisy(draw: Draw, request: Request): Request {
  draw.use("noise: content", SAME);
  const noise = { ...request, actionContent: SECRET };
  if (draw.once(3)) return noise;
  const members = Array.from({ length: 1 + draw.below(3) }, () => oddMember(draw, SECRET, "metadata"));
  return withMetadata(noise, withMembers({ ...request.metadata, note: SECRET }, members));
}

/** A disguised action type. */
const typeForm: Form = (draw, { request }) => ({ ...request, actionType: disguised(draw, request.actionType ?? "") });

const SEPARATORS = ["/", ".", "__"];
const NO_NAME: readonly unknown[] = [6, ["pay6"], { name: "pay6" }, true];

/** A disguised tool, in one or several of the places that name it. */
const toolForm: Form = (draw, { request }) => {
  const { tool = "", ...rest } = request;
  const spelled = (kind = TOOL): string => disguisedSame(draw, tool, kind);
  const beside = (other: unknown): Request => withMetadata(request, { ...rest.metadata, tool: other });
  const forms: Disguises<Request> = [
    ["in its field", SAME, () => ({ ...rest, tool: spelled() })],
    ["in the metadata", SAME, () => withMetadata(rest, { ...rest.metadata, tool: spelled(METADATA_TOOL) })],
    ["beside a blank one", SAME, () => beside(draw.pick([null, "", " "]))],
    ["beside itself", SAME, () => beside(spelled(METADATA_TOOL))],
    ["beside another one", refused("metadata.tool"), () => beside("harmless6")],
    ["beside what is no name", refused("metadata.tool"), () => beside(draw.pick(NO_NAME))],
    [
      "in the metadata beside another one",
      refused("metadata.tool"),
      () => withMetadata({ ...request, tool: "harmless6" }, { ...rest.metadata, tool }),
    ],
    [
      "in both places",
      SAME,
      () => withMetadata({ ...request, tool: spelled() }, { ...rest.metadata, tool: spelled(METADATA_TOOL) }),
    ],
    ["as the action type", SAME, () => ({ ...rest, actionType: disguisedSame(draw, tool, ACTION_TYPE) })],
    [
      "as the action type beside a blank one",
      SAME,
      () => {
        const metadata = { ...rest.metadata, tool: draw.pick([null, "", " "]) };
        return withMetadata({ ...rest, actionType: disguisedSame(draw, tool, ACTION_TYPE) }, metadata);
      },
    ],
  ];
  return draw.disguise("tool", forms);
};

/** A server's tool in one of the forms that gateways use. */
const serverForm: Form = (draw, { request }) => {
  const name = draw.pick(["write_file", "write_", "write_x.y", "write_a__b", "write_a/b"]);
  const prefixed = `${draw.pick(["", "mcp__"])}fs${draw.pick(SEPARATORS)}${name}`;
  const spelled = (text: string, kind: typeof ACTION_TYPE = TOOL): string =>
    draw.once(2) ? disguisedSame(draw, text, kind) : text;
  const server = (): string => disguisedSame(draw, "fs", SERVER);
  const { tool: _, metadata: __, ...rest } = request;
  const noName: readonly unknown[] = [["fs"], { name: "fs" }, 7, true];
  const forms: Disguises<Request> = [
    ["prefixed", SAME, () => ({ ...rest, tool: spelled(prefixed) })],
    ["prefixed in the metadata", SAME, () => withMetadata(rest, { tool: spelled(prefixed, METADATA_TOOL) })],
    ["with its server", SAME, () => withMetadata({ ...rest, tool: spelled(name) }, { mcp_server: server() })],
    [
      "prefixed with its server",
      SAME,
      () => withMetadata({ ...rest, tool: spelled(prefixed) }, { mcp_server: server() }),
    ],
    [
      "prefixed with another server",
      SAME,
      () => withMetadata({ ...rest, tool: prefixed }, { mcp_server: draw.pick(["other", null, ""]) }),
    ],
    [
      "in the metadata with its server",
      SAME,
      () => withMetadata(rest, { tool: spelled(name, METADATA_TOOL), mcp_server: server() }),
    ],
    [
      "with what is no name of a server",
      refused("metadata.mcp_server"),
      () => withMetadata({ ...rest, tool: draw.pick([name, prefixed]) }, { mcp_server: draw.pick(noName) }),
    ],
    [
      "with its server, prefixed with another",
      SAME,
      () => {
        const tool = `${draw.pick(["", "mcp__"])}other${draw.pick(SEPARATORS)}${name}`;
        return withMetadata({ ...rest, tool: spelled(tool) }, { mcp_server: server() });
      },
    ],
    ["as the action type", SAME, () => ({ ...rest, actionType: spelled(prefixed, ACTION_TYPE) })],
    [
      "as the action type with its server",
      SAME,
      () => withMetadata({ ...rest, actionType: spelled(name, ACTION_TYPE) }, { mcp_server: server() }),
    ],
  ];
  return draw.disguise("server", forms);
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
  const wrong = refused("metadata.arguments");
  const shallow = draw.pick([3, 20, 40]);
  const deep = draw.pick([70, 500, 2_000]);
  const forms: Disguises<object> = [
    ["text", SAME, () => ({ arguments: text })],
    ["text beside others", SAME, () => ({ arguments: text, ...harmless })],
    ["beside others", SAME, () => ({ arguments: args, ...harmless })],
    ["the metadata itself", SAME, () => ({ ...args })],
    ["the metadata itself beside null", SAME, () => ({ arguments: null, ...args })],
    ["list", wrong, () => ({ arguments: [args], ...harmless })],
    ["text of a list", wrong, () => ({ arguments: JSON.stringify([args]), ...harmless })],
    ["text of a text", wrong, () => ({ arguments: JSON.stringify(text), ...harmless })],
    ["text with a member twice", wrong, () => ({ arguments: draw.pick([twice(value, 1), twice(1, value)]) })],
    ["text after white space", SAME, () => ({ arguments: draw.pick([" \n", "\t"]) + text, ...harmless })],
    [
      "text after something",
      wrong,
      () => ({ arguments: draw.pick(["\ufeff", "/**/", "\u00a0", ")]}'"]) + text, ...harmless }),
    ],
    [
      "text before something",
      wrong,
      () => ({ arguments: text + draw.pick(["\u0000", "{}", ",", "//", '{"amount":1}']), ...harmless }),
    ],
    ["text with escapes", SAME, () => ({ arguments: `{${escapedKey(name)}:${JSON.stringify(value)}}` })],
    [
      "no object",
      wrong,
      () => ({
        arguments: draw.pick<unknown>([5, true, "", " ", "null", "{", "[]", text.slice(1)]),
        ...harmless,
        ...args,
      }),
    ],
    ["with an odd member", SAME, () => ({ arguments: withMembers(args, [oddMember(draw, harmless, "metadata")]) })],
    [
      "beside a prototype",
      SAME,
      () => withMembers({ arguments: args }, [[draw.pick(["__proto__", "constructor"]), { arguments: harmless }]]),
    ],
    [
      "text with a prototype",
      SAME,
      () => ({ arguments: JSON.stringify(args).replace("{", `{"__proto__":${JSON.stringify(harmless)},`) }),
    ],
    ["with a nested value", SAME, () => ({ arguments: { ...args, more: nested(draw, shallow) } })],
    ["text with a nested value", SAME, () => ({ arguments: JSON.stringify({ ...args, more: nested(draw, shallow) }) })],
    ["with a deep value", ["BODY_TOO_DEEP -"], () => ({ arguments: { ...args, more: nested(draw, deep) } })],
    ["text with a deep value", wrong, () => ({ arguments: JSON.stringify({ ...args, more: nested(draw, deep) }) })],
    [
      "beside similar names",
      SAME,
      () => ({ arguments: args, Arguments: harmless, "arguments ": harmless, args: harmless }),
    ],
  ];
  return withMetadata(request, draw.disguise("arguments", forms));
};

const escapedKey = (name: string): string =>
  `"${[...name].map((each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`).join("")}"`;

function nested(draw: Draw, depth: number): unknown {
  let value: unknown = SECRET;
  const isList = draw.once(2);
  for (let level = 0; level < depth; level++) value = isList ? [value] : { v: value };
  return value;
}

const ODD_COUNTS: readonly object[] = [{ count: 5, code: "A" }, { count: 5, more: 1 }, {}, { code: "a" }];

/** A value in another form, that is the same, or none that the schema admits. */
const valueForm: Form = (draw, plain) => {
  const { request, on } = plain;
  const number = (from: number): unknown => numberDisguised(draw, from + draw.below(10_000_000));
  if (on === "fact") {
    const [[name = ""] = []] = Object.entries(request.metadata ?? {});
    const fact = { [name]: number(50_001) };
    const places: Disguises<object> = [
      ["in the metadata", SAME, () => fact],
      ["in the arguments", SAME, () => ({ arguments: fact })],
      ["beside empty arguments", SAME, () => ({ ...fact, arguments: {} })],
      ["beside null in the arguments", SAME, () => ({ ...fact, arguments: { [name]: null } })],
      ["beside a harmless one in the arguments", SAME, () => ({ ...fact, arguments: { [name]: 1 } })],
      ["beside a harmless one in the metadata", SAME, () => ({ [name]: 1, arguments: fact })],
    ];
    return withMetadata(request, draw.disguise("fact", places));
  }
  const args = argumentsOf(plain);
  if ("amount" in args) return withArguments(request, { amount: number(1_000) });
  if ("kind" in args) {
    const kinds: Disguises<unknown> = [
      ["spelled otherwise", SAME, () => textDisguised(draw, "offshore")],
      ["of another type", SAME, () => draw.pick<unknown>([["offshore"], 5, true, {}])],
    ];
    return withArguments(request, { kind: draw.disguise("word of an enum", kinds) });
  }
  if ("party" in args) {
    const parties: Disguises<unknown> = [
      ["spelled otherwise", SAME, () => ({ name: textDisguised(draw, FORBIDDEN_TEXT) })],
      ["of another type", SAME, () => ({ name: draw.pick<unknown>([[FORBIDDEN_TEXT], 5, { name: 1 }]) })],
      ["in another structure", SAME, () => draw.pick<unknown>([[{ name: FORBIDDEN_TEXT }], "x", 5])],
    ];
    return withArguments(request, { party: draw.disguise("nested text", parties) });
  }
  const counts: Disguises<object> = [
    ["a number in another form", SAME, () => ({ count: numberDisguised(draw, 90) })],
    ["what the schema refuses", SAME, () => draw.pick(ODD_COUNTS)],
  ];
  return withArguments(request, draw.disguise("value of a schema", counts));
};

const withArguments = (request: Request, args: object): Request =>
  withMetadata(request, { arguments: args as JsonObject });

/** An id that is nearly one of the agent's, or beside another one. */
const authorityForm: Form = (draw, { request }) => {
  const { agentId = "", sessionId, onBehalfOf } = request;
  const spelled = (id: string, kind: string, rights: readonly Right[]): string => {
    const forms: Disguises<string> = [
      ["in upper case", rights, () => id.toUpperCase()],
      ["with a space", rights, () => `${id} `],
      ["with an invisible character", rights, () => `${id}\u200b`],
      ["full width", rights, () => id.replace(/[a-z]/, (each) => String.fromCharCode(each.charCodeAt(0) + 0xfee0))],
    ];
    return draw.disguise(kind, forms);
  };
  const isRetry = draw.once(2);
  if (isRetry) draw.use("authority: a request id", SAME);
  const odd = (kind: string, prefix: string) => {
    draw.use(`authority: ${kind}`, SAME);
    return `${prefix}_${draw.word()}`;
  };
  return {
    ...request,
    actionType: `${draw.word()}.${draw.word()}`,
    agentId: draw.once(3) ? spelled(agentId, "agent", ["AGENT_NOT_FOUND -", "AGENT_NOT_ALLOWED -"]) : agentId,
    ...(sessionId !== undefined && { sessionId: spelled(sessionId, "session", SAME) }),
    ...(onBehalfOf !== undefined && { onBehalfOf: spelled(onBehalfOf, "principal", SAME) }),
    ...(draw.once(3) && { escalationId: odd("an unknown escalation", "esc") }),
    ...(draw.once(4) && { grantId: odd("an unknown grant", "grt") }),
    ...(isRetry && { requestId: draw.uuid() }),
  };
};

/** A form that any plain request may take: the same with noise. */
const anyForm: Form = (draw, { request }) => noisy(draw, request);

function family(forms: Form, on: readonly Plain["on"][]) {
  const plains = (lab: Lab): Plain[] => lab.plains.filter((each) => on.includes(each.on));
  return {
    async run(lab: Lab, draw: Draw): Promise<void> {
      const plain = draw.pick(plains(lab));
      const form = forms(draw, plain);
      await lab.attempt(draw, plain.verdict, draw.once(2) ? noisy(draw, form) : form, plain.key);
    },
    control: (lab: Lab, draw: Draw): Promise<void> => lab.assertBoth(draw.pick(plains(lab))),
  };
}

/** Families of cases of names and sources, by what is hostile about them. */
export const NAME_CASES = {
  "disguised action types": family(typeForm, ["type"]),
  "disguised tools": family(toolForm, ["tool"]),
  "tools of servers": family(serverForm, ["server"]),
  "sources of arguments": family(sourceForm, ["arguments"]),
  "values of arguments and facts": family(valueForm, ["arguments", "fact"]),
  "ended authority": family(authorityForm, ["authority"]),
  noise: family(anyForm, ["type", "tool", "server", "arguments", "fact", "authority"]),
};
