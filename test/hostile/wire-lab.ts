import { fromBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { errorFromJsonBytes } from "@connectrpc/connect/protocol-connect";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { ruleFrom } from "../policy/harness.ts";
import { connectOutcome } from "../server/wires.ts";
import { withOwner } from "../support/owner.ts";
import { startServiceProcess, type TestServiceProcess } from "../support/service.ts";
import { openWires, type Wires } from "../support/wires.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, SECRET, shown } from "./lab.ts";
import { exchangeBytes, responseFrom } from "./raw-http.ts";
import { rejectPending } from "./reject-pending.ts";
import { isRight, type Reached, reachedText } from "./rights.ts";

/** A request in plain JSON that the started service refuses or escalates. */
export interface PlainBody {
  readonly agent_id: string;
  readonly action_type: string;
  readonly [name: string]: unknown;
}

/** A request that the service refuses or escalates, and one beside it that it allows. */
export interface WirePlain {
  readonly verdict: Strictness;
  readonly body: PlainBody;
  readonly allowed: PlainBody;
}

/** Bytes to send, and how they are told of when something is wrong. */
export interface RawRequest {
  readonly head: readonly string[];
  readonly body: Buffer;
}

/** The decision on the plain form. */
export type Strictness = "allow" | "block" | "escalate";

/** The program as a process, with requests that it refuses. */
export class WireLab {
  readonly service: TestServiceProcess;
  readonly agentId: string;
  readonly plains: readonly WirePlain[];
  readonly wires: Wires;
  readonly #port: number;

  private constructor(service: TestServiceProcess, agentId: string) {
    this.service = service;
    this.agentId = agentId;
    this.wires = openWires(service);
    this.#port = Number(new URL(service.http).port);
    const plain = (verdict: Strictness, refused: object, allowed: object): WirePlain => {
      const body = { agent_id: agentId, action_content: SECRET, action_type: "call", ...refused };
      return { verdict, body, allowed: { ...body, ...allowed } };
    };
    const paying = (amount: number) => ({ tool: "pay6", metadata: { arguments: { amount } } });
    this.plains = [
      plain("block", { action_type: "t6pay.vendor" }, { action_type: "t6paint.vendor" }),
      plain("escalate", { action_type: "wire.vendor" }, { action_type: "wired.vendor" }),
      plain("block", paying(900), paying(500)),
      plain("block", { metadata: { risk: 60_000 } }, { metadata: { risk: 50_000 } }),
    ];
  }

  static async open(): Promise<WireLab> {
    const service = await startServiceProcess({
      env: { ACP_STREAM_HEARTBEAT_MS: "500" },
      rules: [
        ruleFrom({ type: "action", decision: "block", conditions: { match_action_types: ["t6pay.*"] } }),
        ruleFrom({ type: "action", decision: "escalate", conditions: { match_action_types: ["wire.*"] } }),
        ruleFrom({
          type: "metadata",
          decision: "block",
          conditions: { operator: "AND", rules: [{ field: "risk", operator: ">", value: 50_000 }] },
        }),
      ],
    });
    const input_schema = { type: "object", properties: { amount: { type: "number" } } };
    await service.rest("POST /v1/enforce/tools", { name: "pay6", input_schema });
    const conditions = {
      operator: "AND",
      rules: [{ field: "amount", operator: ">", value: 500, on_missing: "ignore" }],
    };
    const rules = [{ tool: "pay6", decision: "block", conditions }];
    await service.rest("POST /v1/enforce/mandates", { name: "typed", rules });
    const lab = new WireLab(service, await service.agent("free"));
    await lab.assertPlain();
    return lab;
  }

  get pid(): number {
    return this.service.pid;
  }

  async close(): Promise<void> {
    this.wires.close();
    await this.service.stop();
  }

  /** Checks that the service gives plain requests their verdicts, and that it logged no fault and no crash. */
  async assertPlain(): Promise<void> {
    // The server of the tests has no autovacuum, which renews the planner's statistics elsewhere.
    await withOwner(this.service.database.ownerUrl, (client) => client.query("analyze"));
    await rejectPending(this.service, this.agentId);
    for (const plain of this.plains) await this.assertBoth(plain);
    const fault = /^.*"(unhandledRejection|uncaughtException|INTERNAL)".*$/m.exec(this.service.output())?.[0];
    if (fault !== undefined) throw new HostileFinding(`the service logged ${fault}`);
  }

  /** Checks that a plain request gets its verdict, and that the one beside it is allowed. */
  async assertBoth({ verdict, body, allowed }: WirePlain): Promise<void> {
    for (const [wanted, request] of [
      [verdict, body],
      ["allow", allowed],
    ] as const) {
      const { decision } = await this.service.rest("POST /v1/enforce/intercept", request).catch((error: Error) => {
        throw new HostileFinding(`a plain request fails (${error.message}): ${shown(request)}`);
      });
      if (decision !== wanted) throw new HostileFinding(`a plain request gets ${decision}: ${shown(request)}`);
    }
  }

  /**
   * Sends bytes, and checks that the answer is what is right for the disguises that the draw has used since the last call: the
   * decision `verdict`, or a documented refusal. Throws a `HostileFinding`.
   */
  async attempt(draw: Draw, verdict: Strictness, { head, body }: RawRequest): Promise<void> {
    const lines = [...head, `x-api-key: ${this.service.adminKey}`, "connection: close", "", ""];
    const answer = await exchangeBytes(this.#port, Buffer.concat([Buffer.from(lines.join("\r\n"), "latin1"), body]));
    const shownHead = head.join(" | ").slice(0, 500);
    const sent = `${shownHead} || ${JSON.stringify(body.subarray(0, 1_000).toString("latin1"))}`;
    this.judge(draw, verdict, reachedFrom(answer, this.service.adminKey), sent);
  }

  /** Checks what a call came to: a decision, a refusal, or a fault. Throws a `HostileFinding`. */
  judge(draw: Draw, verdict: Strictness, came: Came, sent: string): void {
    const uses = draw.takeUses();
    const told = (fault: string): HostileFinding => {
      const escaped = sent.replace(/[^ -~]/gu, (each) => `\\u{${each.codePointAt(0)?.toString(16)}}`);
      return new HostileFinding(`${fault} [${uses.map(({ disguise }) => disguise).join("; ")}]: ${escaped}`);
    };
    if ("fault" in came) throw told(came.fault);
    if ("decision" in came && came.decision !== verdict)
      throw told(`${came.decision} where the plain form gets ${verdict}`);
    const reached = "decision" in came ? "same" : came;
    draw.count(uses, reached);
    if (!isRight(uses, reached)) throw told(`${reachedText(reached)} is not right for`);
  }
}

/** What a call came to. */
export type Came = { readonly decision: string } | Exclude<Reached, "same"> | { readonly fault: string };

/** Reads an answer over HTTP: a decision, a refusal with a reason, or a fault, which is anything else. */
function reachedFrom(answer: string, key: string): Came {
  const { status, head, body: text } = responseFrom(answer);
  if (!(status >= 200 && status < 500))
    return { fault: `an answer that is none, or a fault (${answer.slice(0, 300)})` };
  if (text.includes(key) || (status >= 400 && text.includes(SECRET)))
    return { fault: `a secret in the answer ${text}` };
  const trailers =
    /grpc-status: *\d+\r?$.*/ims.exec(text)?.[0] ?? (/^grpc-status: *\d+\r?$/im.test(head) ? head : undefined);
  const isDone = trailers !== undefined && /^grpc-status: *0\r?$/m.test(trailers);
  if (trailers !== undefined && !isDone) return refusalFromTrailers(trailers);
  // A message of gRPC-Web stands in a frame, before that of its trailers.
  const json = jsonFrom(isDone ? text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1) : text);
  if (status < 300 && json?.decision !== undefined)
    return { decision: String(json.decision).toLowerCase().replace("decision_", "") };
  const refusal = status < 400 ? undefined : (restRefusal(json, status) ?? connectRefusal(json, text));
  return refusal ?? { fault: `an undocumented answer (${answer.slice(0, 500)})` };
}

/** gRPC codes that tell of the service and not of the request. */
const FAULT_CODES: readonly number[] = [Code.Unknown, Code.Internal, Code.Unavailable, Code.DataLoss, Code.Aborted];

function refusalFromTrailers(trailers: string): Came {
  const field = (name: string): string => new RegExp(`^${name}: *([^\\r\\n]*)`, "im").exec(trailers)?.[1] ?? "";
  return refusalFromStatus(
    Number(field("grpc-status")),
    decodeURIComponent(field("grpc-message")),
    Buffer.from(field("grpc-status-details-bin"), "base64"),
  );
}

/** Reads the status of a gRPC call that failed. */
export function refusalFromStatus(code: number, message: string, details: Buffer): Came {
  if (FAULT_CODES.includes(code)) return { fault: `the gRPC status ${code} (${message})` };
  if (message.includes(SECRET)) return { fault: `a secret in the answer ${message}` };
  return (
    refusalFrom(connectErrorFromDetails(code, message, details)) ?? {
      fault: `the gRPC status ${code} without a reason (${message})`,
    }
  );
}

function connectErrorFromDetails(code: number, message: string, details: Buffer): ConnectError {
  const error = new ConnectError(message, code);
  const decoded = details.length === 0 ? [] : fromBinary(StatusSchema, details).details;
  error.details = decoded.map(({ typeUrl, value }) => ({ type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1), value }));
  return error;
}

function refusalFrom(error: ConnectError): Exclude<Reached, "same"> | undefined {
  const { reason, metadata, violations } = connectOutcome(error);
  if (reason === undefined) return undefined;
  return refusal(reason, metadata.field, violations);
}

function refusal(reason: string, field: string | undefined, violations: readonly { readonly field: string }[] = []) {
  const named = field === undefined ? [] : [field];
  return { reason, fields: violations.length > 0 ? violations.map((each) => each.field) : named };
}

function jsonFrom(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

interface RestDetail {
  readonly reason?: string;
  readonly metadata?: { readonly field?: string };
  readonly field_violations?: readonly { readonly field: string }[];
}

function restRefusal(json: Record<string, unknown> | undefined, status: number) {
  const error = json?.error as { code?: number; message?: string; details?: RestDetail[] } | undefined;
  const [info, bad] = error?.details ?? [];
  if (json?.ok !== false || error?.code !== status || !error.message || info?.reason === undefined) return undefined;
  return refusal(info.reason, info.metadata?.field, bad?.field_violations);
}

function connectRefusal(json: Record<string, unknown> | undefined, text: string): Came | undefined {
  if (typeof json?.code !== "string" || typeof json.message !== "string") return undefined;
  const error = errorFromJsonBytes(Buffer.from(text), undefined, new ConnectError("unreadable"));
  return FAULT_CODES.includes(error.code)
    ? { fault: `a fault over Connect (${text.slice(0, 300)})` }
    : refusalFrom(error);
}
