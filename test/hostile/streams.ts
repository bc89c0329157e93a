/* Streams of intercepts, in which hostile requests come beside plain ones and the key ends half-way. */

import { create, fromJson, type JsonObject, type Message } from "@bufbuild/protobuf";
import {
  EnforcementService,
  InterceptRequestSchema,
  type InterceptStreamResponse,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { grpcConverse } from "../server/wires.ts";
import { disguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { HostileFinding, SECRET, shown } from "./lab.ts";
import type { PlainBody, WireLab } from "./wire-lab.ts";

const { interceptStream } = EnforcementService.method;
/** Milliseconds after which an answer is no longer expected. */
const PATIENCE_MS = 20_000;

/** An open stream that gives each answer to who asked. */
function openStream({ grpc }: WireLab, key: string) {
  const waiting = new Map<string, (answer: InterceptStreamResponse | Error) => void>();
  const call = grpcConverse(grpc, interceptStream, { "x-api-key": key });
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
    const { metadata = {}, ...rest } = body;
    const intercept = fromJson(InterceptRequestSchema, wellFormed({ ...rest, metadata } as JsonObject));
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

/** The decision of an answer; undefined for an error that the caller is told of. */
function decisionOf(answer: InterceptStreamResponse | Error, asked: object): Decision | undefined {
  if (answer instanceof Error) throw new HostileFinding(`the stream failed (${answer.message}): ${shown(asked)}`);
  const { result } = answer;
  if (result.case === "response") return result.value.decision;
  const { reason = "", message = "" } = result.value ?? {};
  if (reason === "INTERNAL" || reason === "" || message.includes(SECRET)) {
    throw new HostileFinding(`a fault in the stream (${reason} ${message}): ${shown(asked)}`);
  }
  return undefined;
}

/** A stream under a credential: hostile requests, then the credential ends, then everything again. */
async function endedStream(lab: WireLab, draw: Draw): Promise<void> {
  const { service } = lab;
  const agentId = await service.agent();
  const created = await service.rest("POST /v1/enforce/credentials", { agent_id: agentId });
  const { credential_id } = created.credential as unknown as { credential_id: string };
  const stream = openStream(lab, String(created.secret));
  const harmless = { agent_id: agentId, action_type: `errand.${draw.word()}`, request_id: draw.uuid() };
  const hostile = Array.from({ length: 3 }, () => {
    const { verdict, body } = draw.pick(lab.plains);
    const action_type = body.metadata === undefined ? disguised(draw, body.action_type) : body.action_type;
    return { verdict, body: { ...body, agent_id: agentId, action_type, request_id: draw.uuid() } };
  });
  try {
    const first = decisionOf(await stream.ask(harmless), harmless);
    if (first !== Decision.ALLOW) throw new HostileFinding(`a first request gets ${first}: ${shown(harmless)}`);
    // Refused without an answer that could be told from others.
    stream.write({ ...harmless, request_id: draw.pick(["", "x", "\u0000"]) });
    const answers = await Promise.all(hostile.map(({ body }) => stream.ask(body)));
    answers.forEach((answer, at) => {
      const decision = decisionOf(answer, hostile[at] ?? {});
      const isStrict =
        decision !== Decision.ALLOW && (hostile[at]?.verdict !== "block" || decision !== Decision.ESCALATE);
      if (!isStrict) throw new HostileFinding(`${Decision[decision ?? 0]} in a stream: ${shown(hostile[at] ?? {})}`);
    });
    await service.rest(`DELETE /v1/enforce/credentials/${credential_id}`);
    const after = [harmless, { ...harmless, request_id: draw.uuid() }, { ...harmless, action_content: SECRET }];
    for (const body of [draw.pick(after), draw.pick(after)]) {
      const decision = decisionOf(await stream.ask(body), body);
      if (decision !== undefined && decision !== Decision.BLOCK) {
        throw new HostileFinding(`${Decision[decision]} in a stream whose key has ended: ${shown(body)}`);
      }
    }
  } finally {
    stream.close();
  }
}

/** Cases of streams, by what is hostile about them. */
export const STREAM_CASES = { "streams whose key ends": endedStream };
