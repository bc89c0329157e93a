import { create, toBinary } from "@bufbuild/protobuf";
import { InterceptRequestSchema } from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { framed } from "../bench/tools.ts";
import { exchangeBytes } from "../hostile/raw-http.ts";
import { interceptOver } from "../log/rest.ts";
import { dataFrame, grpcHeaders, PREFACE, settingsFrame } from "../support/http2-frames.ts";
import { seededBelow } from "../support/seeded-below.ts";
import type { TestServer } from "../support/server.ts";
import type { Actor } from "./retrying-callers.ts";

/** Size of a run. */
export interface FuzzSize {
  readonly seed: number;
  readonly milliseconds: number;
  /** Cases in flight. */
  readonly lanes: number;
}

/** Result of a run. */
export interface FuzzReport {
  /** Numbers of cases by kind. */
  readonly cases: Readonly<Record<string, number>>;
  /** Numbers of answers by kind and status. */
  readonly answers: Readonly<Record<string, number>>;
  /** Descriptions of what is wrong, with the number of the case. */
  readonly findings: readonly string[];
}

/** Milliseconds in which a case is answered, or its connection closed. */
const PATIENCE_MS = 30_000;
/** Cases between two plain actions, which must be allowed. */
const PLAIN_EVERY = 100;
const MAX_FINDINGS = 20;
const CONNECT_PATH = "/agentcontrol.v1.EnforcementService";
/** Numbers and texts at the edges of formats. */
const EDGES = [
  "\0",
  "\xff\xff\xff\xff\x7f",
  "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
  "\r\n\r\n",
  "{",
  "]",
  "1e999",
  "\\ud800",
  "-0",
];

type Below = (bound: number) => number;

/** Changes bytes in one to four places: flipped, put in, taken out, doubled, cut off. */
function mutated(bytes: Buffer, below: Below, from = 0): Buffer {
  let text = bytes;
  for (let change = below(4); change >= 0; change--) {
    const at = from + below(Math.max(1, text.length - from));
    const [head, tail] = [text.subarray(0, at), text.subarray(at)];
    const width = 1 + below(16);
    const edge = Buffer.from(EDGES[below(EDGES.length)] as string, "latin1");
    const noise = Buffer.from(Array.from({ length: width }, () => below(256)));
    const forms: readonly Buffer[] = [
      Buffer.concat([head, noise, tail.subarray(width)]),
      Buffer.concat([head, edge, tail]),
      Buffer.concat([head, tail.subarray(width)]),
      Buffer.concat([head, tail.subarray(0, width), tail]),
      below(8) === 0 ? head : text,
    ];
    text = forms[below(forms.length)] as Buffer;
  }
  return text;
}

const actionOf = (agentId: string) => ({
  agentId,
  actionType: "fuzz.act",
  actionContent: "some content",
  metadata: { arguments: { amount: 12.5, to: "somebody", list: [1, "two", { three: null }] } },
});

function jsonOf(agentId: string): Buffer {
  const { actionType, actionContent, metadata } = actionOf(agentId);
  const body = { agent_id: agentId, action_type: actionType, action_content: actionContent, metadata };
  return Buffer.from(JSON.stringify(body));
}

function requestText(key: string, body: Buffer): Buffer {
  const head = [
    "POST /v1/enforce/intercept HTTP/1.1",
    "host: fuzz",
    "content-type: application/json",
    `x-api-key: ${key}`,
    `content-length: ${body.length}`,
    "connection: close",
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`), body]);
}

/** A gRPC call in frames of HTTP/2. */
function grpcCall(key: string, message: Buffer): Buffer {
  const path = `${CONNECT_PATH}/Intercept`;
  return Buffer.concat([
    PREFACE,
    settingsFrame(),
    grpcHeaders(1, path, { "x-api-key": key }),
    dataFrame(1, framed(message), true),
  ]);
}

/** The result of a case: the status of its answer, and what is wrong with it. */
interface Seen {
  readonly status: string;
  readonly wrong?: string;
}

async function post(url: string, type: string, key: string, body: Buffer): Promise<Seen> {
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const headers = { "content-type": type, "x-api-key": key };
  const response = await fetch(url, { method: "POST", headers, body: new Uint8Array(body), signal });
  const text = Buffer.from(await response.arrayBuffer()).toString("latin1");
  const status = String(response.status);
  // gRPC-Web tells its status in its last frame, or in the head: 2 is UNKNOWN, 13 INTERNAL, 15 DATA_LOSS.
  const grpcStatus = response.headers.get("grpc-status") ?? /grpc-status: ?(\d+)/.exec(text)?.[1] ?? "";
  const isFault = response.status >= 500 || ["2", "13", "15"].includes(grpcStatus);
  return isFault ? { status, wrong: `${status} ${text.slice(0, 300)}` } : { status };
}

function rawSeen(answer: string, status: RegExp): Seen {
  if (answer.includes("no answer in time")) return { status: "late", wrong: "was neither answered nor closed in time" };
  const found = status.exec(answer)?.[1] ?? (answer.startsWith("no answer") ? "closed" : "other");
  return found === "500" ? { status: found, wrong: answer.slice(0, 300) } : { status: found };
}

type Case = (server: TestServer, actor: Actor, below: Below) => Promise<Seen>;

const CASES: Readonly<Record<string, Case>> = {
  http1: async ({ http, adminKey }, { agentId }, below) =>
    rawSeen(
      await exchangeBytes(Number(new URL(http).port), mutated(requestText(adminKey, jsonOf(agentId)), below), true),
      /^HTTP\/1\.1 (\d{3})/,
    ),
  http2: async ({ grpc, adminKey }, { agentId }, below) => {
    const message = Buffer.from(toBinary(InterceptRequestSchema, create(InterceptRequestSchema, actionOf(agentId))));
    const from = below(20) === 0 ? 0 : PREFACE.length;
    return rawSeen(
      await exchangeBytes(Number(grpc.split(":").at(-1)), mutated(grpcCall(adminKey, message), below, from), true),
      /(HTTP\/1\.1 \d{3})/,
    );
  },
  protobuf: ({ http, adminKey }, { agentId }, below) => {
    const message = Buffer.from(toBinary(InterceptRequestSchema, create(InterceptRequestSchema, actionOf(agentId))));
    return post(`${http}${CONNECT_PATH}/Intercept`, "application/proto", adminKey, mutated(message, below));
  },
  envelope: ({ http, adminKey }, { agentId }, below) => {
    const message = Buffer.from(toBinary(InterceptRequestSchema, create(InterceptRequestSchema, actionOf(agentId))));
    const body = mutated(framed(message), below);
    return post(`${http}${CONNECT_PATH}/Intercept`, "application/grpc-web+proto", adminKey, body);
  },
  json: ({ http, adminKey }, { agentId }, below) =>
    post(`${http}/v1/enforce/intercept`, "application/json", adminKey, mutated(jsonOf(agentId), below)),
};
const KINDS = Object.keys(CASES);

/** Sends changed bytes of valid calls for a while. Case by case the same for the same seed. */
export async function runFuzz(server: TestServer, actor: Actor, size: FuzzSize): Promise<FuzzReport> {
  const cases: Record<string, number> = {};
  const answers: Record<string, number> = {};
  const findings: string[] = [];
  const add = (counts: Record<string, number>, name: string): void => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  let next = 0;
  const end = performance.now() + size.milliseconds;
  const lane = async (): Promise<void> => {
    while (performance.now() < end && findings.length < MAX_FINDINGS) {
      const number = next++;
      const kind = KINDS[number % KINDS.length] as string;
      const below = seededBelow(Math.imul(size.seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
      add(cases, kind);
      try {
        const { status, wrong } = await (CASES[kind] as Case)(server, actor, below);
        add(answers, `${kind} ${status}`);
        if (wrong !== undefined) findings.push(`case ${number}, ${kind}: ${wrong}`);
      } catch (error) {
        findings.push(`case ${number}, ${kind}: ${error} ${(error as { cause?: unknown }).cause ?? ""}`);
      }
      if (number % PLAIN_EVERY !== 0) continue;
      const plain = await interceptOver(server, { agent_id: actor.agentId, action_type: "fuzz.plain" });
      const isAllowed = plain.kind === "decided" && plain.reply.decision === "allow";
      if (!isAllowed) findings.push(`after case ${number} a plain action got ${JSON.stringify(plain)}`);
    }
  };
  await Promise.all(Array.from({ length: size.lanes }, lane));
  return { cases, answers, findings };
}
