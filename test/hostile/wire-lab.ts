import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { Client, credentials } from "@grpc/grpc-js";
import { ruleFrom } from "../policy/harness.ts";
import { startService, type TestService } from "../support/service.ts";
import { HostileFinding, SECRET } from "./lab.ts";

/** A request in plain JSON that the started service refuses or escalates. */
export interface PlainBody {
  readonly agent_id: string;
  readonly action_type: string;
  readonly [name: string]: unknown;
}

/** Bytes to send, and how they are told of when something is wrong. */
export interface RawRequest {
  readonly head: readonly string[];
  readonly body: Buffer;
}

/** Whether the answer to the plain form is `block` or `escalate`. */
export type Strictness = "block" | "escalate";

/** Milliseconds after which a request without an answer is given up. */
const PATIENCE_MS = 20_000;

/** The program as a process, with requests that it refuses. */
export class WireLab {
  readonly service: TestService;
  readonly agentId: string;
  readonly plains: readonly { readonly verdict: Strictness; readonly body: PlainBody }[];
  /** The channel for streams. */
  readonly grpc: Client;
  readonly #port: number;

  private constructor(service: TestService, agentId: string) {
    this.service = service;
    this.agentId = agentId;
    this.grpc = new Client(service.grpc, credentials.createInsecure());
    this.#port = Number(new URL(service.http).port);
    const own = { agent_id: agentId, action_content: SECRET };
    this.plains = [
      { verdict: "block", body: { ...own, action_type: "t6pay.vendor" } },
      { verdict: "escalate", body: { ...own, action_type: "wire.vendor" } },
      {
        verdict: "block",
        body: { ...own, action_type: "call", tool: "pay6", metadata: { arguments: { amount: 900 } } },
      },
      { verdict: "block", body: { ...own, action_type: "report", metadata: { risk: 60_000 } } },
    ];
  }

  static async open(): Promise<WireLab> {
    const service = await startService({
      rules: [
        ruleFrom({ type: "action", decision: "block", conditions: { match_action_types: ["t6pay.*"] } }),
        ruleFrom({ type: "action", decision: "escalate", conditions: { match_action_types: ["wire.*"] } }),
        ruleFrom({
          ...{ type: "metadata", decision: "block" },
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

  async close(): Promise<void> {
    this.grpc.close();
    await this.service.stop();
  }

  /** Checks that the service gives plain requests their verdicts, and that it logged no fault and no crash. */
  async assertPlain(): Promise<void> {
    for (const { verdict, body } of this.plains) {
      const { decision } = await this.service.rest("POST /v1/enforce/intercept", body);
      if (decision !== verdict) throw new HostileFinding(`a plain request gets ${decision}: ${JSON.stringify(body)}`);
    }
    const harmless = { agent_id: this.agentId, action_type: "harmless" };
    const { decision } = await this.service.rest("POST /v1/enforce/intercept", harmless);
    if (decision !== "allow") throw new HostileFinding(`a harmless request gets ${decision}`);
    const fault = /^.*"(unhandledRejection|uncaughtException|INTERNAL)".*$/m.exec(this.service.output())?.[0];
    if (fault !== undefined) throw new HostileFinding(`the service logged ${fault}`);
  }

  /** Sends bytes, and checks that the answer is a documented error or a decision as strict as the plain form's. */
  async attempt(verdict: Strictness, { head, body }: RawRequest): Promise<void> {
    const lines = [...head, `x-api-key: ${this.service.adminKey}`, "connection: close", "", ""];
    const answer = await this.#ask(Buffer.concat([Buffer.from(lines.join("\r\n"), "latin1"), body]));
    const fault = faultOf(answer, verdict, this.service.adminKey);
    if (fault === undefined) return;
    const sent = `${head.join(" | ")} || ${JSON.stringify(body.subarray(0, 1_500).toString("latin1"))}`;
    throw new HostileFinding(`${fault}: ${sent.replace(/[^ -~]/g, (each) => `\\x${each.charCodeAt(0).toString(16)}`)}`);
  }

  async #ask(bytes: Buffer): Promise<string> {
    const socket = connect({ host: "127.0.0.1", port: this.#port });
    socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error("no answer in time")));
    // The service may close a connection while it is still being written to.
    const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
    const errors: Error[] = [];
    socket.on("error", (error) => errors.push(error));
    socket.write(bytes);
    const answer = await buffer(socket).catch(() => Buffer.alloc(0));
    await closed;
    return answer.length === 0 ? `no answer (${errors[0]?.message ?? "closed"})` : answer.toString();
  }
}

/** Finds what is wrong with an answer to a request; undefined for a refusal or a decision that is strict enough. */
function faultOf(answer: string, verdict: Strictness, key: string): string | undefined {
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
  const text = /transfer-encoding: chunked/i.test(head) ? dechunked(rest.join("\r\n\r\n")) : rest.join("\r\n\r\n");
  if (!(status >= 200 && status < 500)) return `an answer that is none, or a fault (${answer.slice(0, 300)})`;
  if (text.includes(key) || (status >= 400 && text.includes(SECRET))) return `a secret in the answer ${text}`;
  // gRPC-Web says how a call ended in its trailers; 2 and 13 are faults. An answer to OPTIONS has no content.
  if (status === 204 || /^grpc-status: *(?!0|2\r|13)\d/m.test(text)) return undefined;
  const json = jsonFrom(text);
  if (status < 300) {
    const decision = String(json?.decision).toLowerCase().replace("decision_", "");
    return decision === "block" || decision === verdict
      ? undefined
      : `${status} ${text.slice(0, 300)} in place of ${verdict}`;
  }
  if (status >= 400 && (text === "" || isRestError(json, status) || isConnectError(json))) return undefined;
  return `an undocumented answer (${answer.slice(0, 500)})`;
}

function jsonFrom(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}

function isRestError(json: Record<string, unknown> | undefined, status: number): boolean {
  const error = json?.error as { code?: number; message?: string; details?: { reason?: string }[] } | undefined;
  return (
    json?.ok === false && error?.code === status && error.message !== "" && error.details?.[0]?.reason !== undefined
  );
}

const isConnectError = (json: Record<string, unknown> | undefined): boolean =>
  typeof json?.code === "string" &&
  typeof json.message === "string" &&
  json.code !== "internal" &&
  json.code !== "unknown";

function dechunked(text: string): string {
  let whole = "";
  for (let at = 0; ; ) {
    const end = text.indexOf("\r\n", at);
    const length = Number.parseInt(text.slice(at, end), 16);
    if (end < 0 || !(length > 0)) return whole;
    whole += text.slice(end + 2, end + 2 + length);
    at = end + 2 + length + 2;
  }
}
