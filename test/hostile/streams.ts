/* Streams: intercepts and watches under hostile requests and cursors, whose key ends half-way. */

import { create, type DescMethodServerStreaming, fromJson, type JsonObject, type Message } from "@bufbuild/protobuf";
import { AgentService } from "../../gen/agentcontrol/v1/agent_service_pb.js";
import {
  EnforcementService,
  InterceptRequestSchema,
  type InterceptStreamResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { EscalationService } from "../../gen/agentcontrol/v1/escalation_service_pb.js";
import { Decision, DecisionPath } from "../../gen/agentcontrol/v1/resources_pb.js";
import { grpcConverse } from "../server/wires.ts";
import type { Answer } from "../support/wires.ts";
import { disguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, SECRET, shown } from "./lab.ts";
import { type Right, refused, SAME } from "./rights.ts";
import type { Came, PlainBody, WireLab } from "./wire-lab.ts";

const { interceptStream, watchDecisions } = EnforcementService.method;
const { watchEscalations } = EscalationService.method;
const { watchAgent } = AgentService.method;
/** Milliseconds after which an answer is no longer expected. */
const PATIENCE_MS = 20_000;
/** Milliseconds within which a watch ends with its key: one second is promised, the rest is for a busy machine. */
const ENDS_WITHIN_MS = 2_000;

/** An open stream that gives each answer to who asked. */
function openStream({ wires }: WireLab, key: string) {
  const waiting = new Map<string, (answer: InterceptStreamResponse | Error) => void>();
  const call = grpcConverse(wires.grpc, interceptStream, { "x-api-key": key });
  const end = (error: Error): void => {
    for (const settle of waiting.values()) settle(error);
    waiting.clear();
  };
  call.on("data", (answer: InterceptStreamResponse) => {
    waiting.get(answer.requestId)?.(answer);
    waiting.delete(answer.requestId);
  });
  call.on("error", end);
  call.on("end", () => end(new Error("the stream has ended")));
  const write = (body: PlainBody): void => {
    const intercept = fromJson(InterceptRequestSchema, wellFormed(body as JsonObject));
    call.write(create(interceptStream.input, { intercept }) as Message);
  };
  const ask = (body: PlainBody & { readonly request_id: string }): Promise<InterceptStreamResponse | Error> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => resolve(new Error("no answer in time")), PATIENCE_MS);
      waiting.set(body.request_id, (answer) => {
        clearTimeout(timer);
        resolve(answer);
      });
      write(body);
    });
  return { ask, write, close: () => call.cancel() };
}

/** Lone surrogates have no form in a message. */
const wellFormed = (json: JsonObject): JsonObject =>
  JSON.parse(JSON.stringify(json), (_, value) => (typeof value === "string" ? value.toWellFormed() : value));

/** What an answer of a stream says: a decision with its path, or a refusal. */
function cameOf(answer: InterceptStreamResponse | Error): Came & { readonly path?: string } {
  if (answer instanceof Error) return { fault: `the stream failed (${answer.message})` };
  const { result } = answer;
  if (result.case === "response") {
    const { decision, decisionPath } = result.value;
    return { decision: (Decision[decision] ?? "").toLowerCase(), path: DecisionPath[decisionPath] ?? "" };
  }
  const { reason, message } = result.case === "error" ? result.value : { reason: "", message: "" };
  if (reason === "INTERNAL" || reason === "" || message.includes(SECRET))
    return { fault: `a fault in the stream (${reason} ${message})` };
  const field = /^`(?:intercept\.)?([\w.[\]]+)`/.exec(message)?.[1];
  return { reason, fields: field === undefined ? [] : [field] };
}

/** What Intercept says to a request with a key, in the form of `cameOf`. */
async function interceptCame(
  { service }: WireLab,
  key: string,
  body: PlainBody,
): Promise<Came & { readonly path?: string }> {
  const response = await fetch(`${service.http}/v1/enforce/intercept`, {
    method: "POST",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const json = (await response.json()) as Record<string, unknown> & { error?: { details: [{ reason: string }] } };
  const reason = json.error?.details[0].reason;
  // An address that sends many keys that are none is held off for a while.
  if (reason !== undefined) return { reason: reason === "TOO_MANY_WRONG_KEYS" ? "KEY_INVALID" : reason, fields: [] };
  return { decision: String(json.decision), path: String(json.decision_path).toUpperCase() };
}

/** A key with its end, and what calls with it come to afterwards. */
interface EndingKey {
  readonly secret: string;
  /** The reason of an ended watch of the agent, and whether it shows the revocation first. */
  readonly showsRevocation: boolean;
  end(): Promise<unknown>;
}

type KeyKind = (lab: WireLab, agentId: string) => Promise<EndingKey>;

const newKey = async ({ service }: WireLab, fields: object): Promise<{ secret: string; keyId: string }> => {
  const { secret, key } = await service.rest("POST /v1/admin/keys", { name: "streamer", ...fields });
  return { secret: String(secret), keyId: (key as unknown as { key_id: string }).key_id };
};

/** Keys that end in each of the ways in which keys end. */
const KEYS: Readonly<Record<string, KeyKind>> = {
  "a credential that is ended": async ({ service }, agentId) => {
    const created = await service.rest("POST /v1/enforce/credentials", { agent_id: agentId });
    const { credential_id } = created.credential as unknown as { credential_id: string };
    const end = () => service.rest(`DELETE /v1/enforce/credentials/${credential_id}`);
    return { secret: String(created.secret), showsRevocation: false, end };
  },
  "a bound key that is deleted": async (lab, agentId) => {
    const { secret, keyId } = await newKey(lab, { role: "agent", agent_id: agentId });
    return { secret, showsRevocation: false, end: () => lab.service.rest(`DELETE /v1/admin/keys/${keyId}`) };
  },
  "an operator's key that is deleted": async (lab) => {
    const { secret, keyId } = await newKey(lab, { role: "admin" });
    return { secret, showsRevocation: false, end: () => lab.service.rest(`DELETE /v1/admin/keys/${keyId}`) };
  },
  "a credential whose agent is revoked": async ({ service }, agentId) => {
    const created = await service.rest("POST /v1/enforce/credentials", { agent_id: agentId });
    const end = () => service.rest(`POST /v1/enforce/agents/${agentId}/revoke`, {});
    return { secret: String(created.secret), showsRevocation: true, end };
  },
};

async function endingKey(lab: WireLab, draw: Draw, agentId: string, kind: string): Promise<EndingKey> {
  const names = Object.keys(KEYS);
  const name = draw.pick(names);
  draw.use(`${kind}: ${name}`, SAME);
  return (KEYS[name] as KeyKind)(lab, agentId);
}

/** A stream under a key: hostile requests, then the key ends, then everything again, as Intercept would answer it. */
async function endedStream(lab: WireLab, draw: Draw): Promise<void> {
  const agentId = await lab.service.agent();
  const key = await endingKey(lab, draw, agentId, "stream");
  const keyUses = draw.takeUses();
  const stream = openStream(lab, key.secret);
  const harmless = { agent_id: agentId, action_type: `errand.${draw.word()}`, request_id: draw.uuid() };
  try {
    lab.judge(draw, "allow", cameOf(await stream.ask(harmless)), shown(harmless));
    // Refused without an answer that could be told from others.
    stream.write({ ...harmless, request_id: draw.pick(["", "x", "\u0000"]) });
    for (const _ of [0, 1, 2]) {
      const { verdict, body } = draw.pick(lab.plains);
      const action_type = body.metadata === undefined ? disguised(draw, body.action_type) : body.action_type;
      const sent = { ...body, agent_id: agentId, action_type, request_id: draw.uuid() };
      lab.judge(draw, verdict, cameOf(await stream.ask(sent)), shown(sent));
    }
    await key.end();
    for (const { disguise, rights } of keyUses) draw.use(disguise, rights);
    const request = draw.disguise("after the end", [
      ["a repeat", SAME, () => harmless],
      ["a new request", SAME, () => ({ ...harmless, request_id: draw.uuid() })],
    ]);
    const answer = cameOf(await stream.ask(request));
    const wanted = await interceptCame(lab, key.secret, { ...request, request_id: draw.uuid() });
    const isSame = JSON.stringify(told(answer)) === JSON.stringify(told(wanted));
    if ("fault" in answer || !isSame || ("decision" in answer && answer.decision !== "block"))
      throw new HostileFinding(
        `after the end ${shown(answer)} where Intercept says ${shown(wanted)}: ${shown(request)}`,
      );
    draw.count(draw.takeUses(), "same");
  } finally {
    stream.close();
  }
}

const told = (came: Came & { readonly path?: string }): unknown =>
  "decision" in came ? [came.decision, came.path] : "reason" in came ? came.reason : came;

/** A stream answers as Intercept would. */
async function streamControl(lab: WireLab, draw: Draw): Promise<void> {
  const stream = openStream(lab, lab.service.adminKey);
  try {
    const { verdict, body, allowed } = draw.pick(lab.plains);
    for (const [wanted, request] of [
      [verdict, body],
      ["allow", allowed],
    ] as const) {
      const sent = { ...request, request_id: draw.uuid() };
      lab.judge(draw, wanted, cameOf(await stream.ask(sent)), shown(sent));
    }
  } finally {
    stream.close();
  }
}

/** Watches, with the request that each of them begins with. */
const WATCHES = [
  ["decisions", watchDecisions, () => ({})],
  ["escalations", watchEscalations, () => ({})],
  ["an agent", watchAgent, (agentId: string) => ({ agent_id: agentId })],
] as const;

/** Reads a watch on one wire until it ends; gives how, with every message before it. */
function watch(lab: WireLab, draw: Draw, method: DescMethodServerStreaming, request: JsonObject, key: string) {
  const wire = draw.pick(lab.wires.all);
  draw.use(`watch: over ${wire.name}`, SAME);
  const leaving = new AbortController();
  const messages: unknown[] = [];
  let begun: () => void = () => undefined;
  const first = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const read = async (): Promise<Answer | Error | undefined> => {
    try {
      for await (const message of wire.stream(method, request, { key, signal: leaving.signal })) {
        messages.push(message);
        begun();
      }
      return undefined;
    } catch (error) {
      return error as Answer | Error;
    } finally {
      begun();
    }
  };
  return { wire: wire.name, messages, first, end: read(), leave: () => leaving.abort() };
}

const late = (ms: number): Promise<"late"> => new Promise((resolve) => setTimeout(() => resolve("late"), ms).unref());

/** A watch whose key ends: it ends with KEY_INVALID, and soon. */
async function endedWatch(lab: WireLab, draw: Draw): Promise<void> {
  const agentId = await lab.service.agent();
  const [name, method, requestFor] = draw.pick(WATCHES);
  // A key of an agent watches its agent only.
  const key = await (name === "an agent" ? endingKey(lab, draw, agentId, "watch") : ownerKey(lab, draw));
  draw.use(`watch: of ${name}`, SAME);
  const watched = watch(lab, draw, method, requestFor(agentId), key.secret);
  try {
    if ((await Promise.race([watched.first, late(PATIENCE_MS)])) === "late")
      throw new HostileFinding(`a watch of ${name} over ${watched.wire} does not begin`);
    await key.end();
    const ended = await Promise.race([watched.end, late(ENDS_WITHIN_MS)]);
    const how = ended === "late" || ended === undefined || ended instanceof Error ? String(ended) : ended.reason;
    if (how !== "KEY_INVALID")
      throw new HostileFinding(`a watch of ${name} over ${watched.wire} whose key ended: ${how}`);
    const shows = watched.messages.some((each) => (each as { change?: string }).change === "revoked");
    if (shows !== key.showsRevocation)
      throw new HostileFinding(`a watch of ${name} over ${watched.wire} shows ${shown(watched.messages)}`);
    draw.count(draw.takeUses(), "same");
  } finally {
    watched.leave();
  }
}

async function ownerKey(lab: WireLab, draw: Draw): Promise<EndingKey> {
  draw.use("watch: an operator's key that is deleted", SAME);
  return (KEYS["an operator's key that is deleted"] as KeyKind)(lab, "");
}

const NO_CURSOR: readonly Right[] = refused("cursor");

/** A watch from a cursor that nobody got. */
async function hostileCursor(lab: WireLab, draw: Draw): Promise<void> {
  const [name, method] = draw.pick(WATCHES.slice(0, 2));
  draw.use(`cursor: of ${name}`, SAME);
  const cursor = draw.disguise<string>("cursor", [
    ["the beginning", SAME, () => draw.pick(["0", "00", "01"])],
    ["no number", NO_CURSOR, () => draw.pick(["x", "1x", "--1", "1e3", "0x10", "1.5", "NaN", "null", "{}", "%00"])],
    ["negative", NO_CURSOR, () => draw.pick(["-1", "-0"])],
    ["beyond the log", NO_CURSOR, () => draw.pick(["999999999", "9007199254740993", "9".repeat(40)])],
    ["too long", NO_CURSOR, () => "1".repeat(65)],
    ["disguised", NO_CURSOR, () => draw.pick(["\u0661", "\uff11", "1\u200b", "\u0000", "1\n", " 1", "+1"])],
    ["of a query", NO_CURSOR, () => draw.pick(["1;select", "1&cursor=2", "1' or '1", "../1"])],
  ]);
  const watched = watch(lab, draw, method, { cursor }, lab.service.adminKey);
  const outcome = await Promise.race([watched.first, late(PATIENCE_MS)]);
  watched.leave();
  const ended = watched.messages.length > 0 ? undefined : await watched.end;
  const came = (): Came => {
    if (outcome === "late") return { fault: "no message in time" };
    if (ended instanceof Error) return { fault: `a failure (${ended.message})` };
    if (ended === undefined) return watched.messages.length > 0 ? { decision: "allow" } : { fault: "the watch ended" };
    const fields = ended.violations.map(({ field }) => field);
    const { field } = ended.metadata as { field?: string };
    return ["INTERNAL", "UNKNOWN", "UNAVAILABLE"].includes(ended.code) || ended.reason === undefined
      ? { fault: `${ended.code} ${ended.message}` }
      : { reason: ended.reason, fields: fields.length > 0 || field === undefined ? fields : [field] };
  };
  lab.judge(draw, "allow", came(), `${watched.wire} ${name} ${shown({ cursor })}`);
}

/** A watch shows what is decided after it has begun. */
async function watchControl(lab: WireLab, draw: Draw): Promise<void> {
  const watched = watch(lab, draw, watchDecisions, {}, lab.service.adminKey);
  await watched.first;
  const { decision_id } = await lab.service.rest("POST /v1/enforce/intercept", draw.pick(lab.plains).body);
  const until = performance.now() + PATIENCE_MS;
  const isShown = (): boolean => JSON.stringify(watched.messages).includes(String(decision_id));
  while (!isShown() && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
  watched.leave();
  draw.count(draw.takeUses(), "same");
  if (!isShown()) throw new HostileFinding(`a watch over ${watched.wire} does not show a decision`);
  await lab.assertBoth(draw.pick(lab.plains));
}

/** Families of cases of streams, by what is hostile about them. */
export const STREAM_CASES = {
  "intercepts whose key ends": { run: endedStream, control: streamControl },
  "watches whose key ends": { run: endedWatch, control: watchControl },
  cursors: { run: hostileCursor, control: watchControl },
};
