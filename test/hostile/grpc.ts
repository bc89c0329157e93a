/* Hostile bytes over gRPC: messages of protobuf that two readers may read differently. */

import { create, fromBinary, fromJson, type JsonObject, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { Metadata, type ServiceError } from "@grpc/grpc-js";
import {
  EnforcementService,
  InterceptRequestSchema,
  InterceptResponseSchema,
} from "../../gen/agentcontrol/v1/enforcement_service_pb.js";
import { Decision } from "../../gen/agentcontrol/v1/resources_pb.js";
import { grpcPath } from "../server/wires.ts";
import { disguised } from "./disguises.ts";
import type { Draw } from "./draw.ts";
import { SECRET } from "./lab.ts";
import { type Right, refused, SAME } from "./rights.ts";
import { type Came, type PlainBody, refusalFromStatus, type WireLab, type WirePlain } from "./wire-lab.ts";

const { intercept } = EnforcementService.method;
const { actionType, actionContent, metadata, tool } = InterceptRequestSchema.field;
const NO_MESSAGE: readonly Right[] = ["INVALID_FIELD -"];

const bytesOf = (body: PlainBody): Buffer =>
  Buffer.from(toBinary(InterceptRequestSchema, fromJson(InterceptRequestSchema, body as JsonObject)));
const field = (number: number, type: WireType, value: (writer: BinaryWriter) => BinaryWriter): Uint8Array =>
  value(new BinaryWriter().tag(number, type)).finish();
const text = (number: number, value: string): Uint8Array =>
  field(number, WireType.LengthDelimited, (writer) => writer.string(value));
const raw = (number: number, value: Uint8Array): Uint8Array =>
  field(number, WireType.LengthDelimited, (writer) => writer.bytes(value));

function nestedValue(depth: number): Value {
  let value = create(ValueSchema, { kind: { case: "stringValue", value: SECRET } });
  for (let level = 0; level < depth; level++)
    value = create(ValueSchema, { kind: { case: "structValue", value: { fields: { v: value } } } });
  return value;
}

/** Metadata with one member, as a field of the request. */
const memberOf = (name: string, value: Uint8Array): Uint8Array =>
  raw(metadata.number, raw(1, Buffer.concat([text(1, name), raw(2, value)])));

/** A request's bytes in a form that another reader may take for something else. */
function hostileMessage(draw: Draw, body: PlainBody): Uint8Array {
  const plain = bytesOf(body);
  const and = (...parts: readonly Uint8Array[]): Uint8Array => Buffer.concat([plain, ...parts]);
  const before = (part: Uint8Array): Uint8Array => Buffer.concat([part, plain]);
  const number = (value: number): Uint8Array =>
    memberOf("more", toBinary(ValueSchema, create(ValueSchema, { kind: { case: "numberValue", value } })));
  const noText = [[0xc0, 0xb6], [0xed, 0xa0, 0x80], [0xff], [0xe2, 0x80]];
  return draw.disguise<Uint8Array>("message", [
    [
      "a disguised type",
      SAME,
      () => bytesOf({ ...body, action_type: disguised(draw, body.action_type).toWellFormed() }),
    ],
    ["a harmless type before it", SAME, () => before(text(actionType.number, "harmless"))],
    ["a harmless tool before it", SAME, () => (body.tool === undefined ? plain : before(text(tool.number, "read")))],
    ["an unknown field", SAME, () => and(text(15_000, "harmless"))],
    ["an unknown number", SAME, () => and(field(14_000, WireType.Varint, (writer) => writer.uint32(1)))],
    ["another member of the metadata", SAME, () => and(memberOf("more", toBinary(ValueSchema, nestedValue(2))))],
    ["a member without a value", SAME, () => and(memberOf("more", Buffer.alloc(0)))],
    ["a member that is deep", ["BODY_TOO_DEEP *"], () => and(memberOf("more", toBinary(ValueSchema, nestedValue(95))))],
    [
      "a number that is not finite",
      refused("metadata"),
      () => and(number(draw.pick([Number.NaN, Infinity, -Infinity]))),
    ],
    ["cut off", NO_MESSAGE, () => plain.subarray(0, plain.length - 1)],
    [
      "a type that is a number",
      NO_MESSAGE,
      () => and(field(actionType.number, WireType.Varint, (writer) => writer.uint32(5))),
    ],
    ["a tag of no field", NO_MESSAGE, () => and(Buffer.from([draw.pick([0x00, 0x07, 0x0e])]))],
    [
      "a length that is too great",
      NO_MESSAGE,
      () => and(Buffer.from([(actionContent.number << 3) | 2, 0xff, 0xff, 0x7f])),
    ],
    ["a group that does not end", NO_MESSAGE, () => and(Buffer.from([0x7b]))],
    ["text that is none", NO_MESSAGE, () => and(raw(actionContent.number, Buffer.from(draw.pick(noText))))],
    ["JSON", NO_MESSAGE, () => Buffer.from(JSON.stringify(body))],
    ["nothing", refused("action_type", "agent_id"), () => Buffer.alloc(0)],
  ]);
}

/** Makes a unary call with a request's bytes, and reads what it came to. */
function ask({ wires, service }: WireLab, bytes: Uint8Array, draw?: Draw): Promise<Came> {
  const headers = new Metadata();
  if (draw?.once(4)) {
    draw.use("message: a bearer's key", SAME);
    headers.set("authorization", `${draw.pick(["Bearer", "bearer"])} ${service.adminKey}`);
  } else headers.set("x-api-key", service.adminKey);
  const same = (each: Uint8Array): Buffer => Buffer.from(each);
  return new Promise((resolve) => {
    const done = (error: ServiceError | null, answer?: Uint8Array): void => {
      if (error !== null) {
        const [details] = error.metadata.get("grpc-status-details-bin");
        resolve(refusalFromStatus(error.code, error.details, (details as Buffer) ?? Buffer.alloc(0)));
        return;
      }
      const { decision } = fromBinary(InterceptResponseSchema, answer ?? new Uint8Array());
      resolve({ decision: (Decision[decision] ?? "").toLowerCase() });
    };
    wires.grpc.makeUnaryRequest(grpcPath(intercept), same, same, bytes, headers, done);
  });
}

async function attempt(lab: WireLab, draw: Draw, verdict: WirePlain["verdict"], bytes: Uint8Array): Promise<void> {
  const came = await ask(lab, bytes, draw);
  lab.judge(draw, verdict, came, `gRPC ${JSON.stringify(Buffer.from(bytes.subarray(0, 500)).toString("latin1"))}`);
}

/** Families of cases over gRPC, by what is hostile about them. */
export const GRPC_CASES = {
  "grpc requests": {
    async run(lab: WireLab, draw: Draw): Promise<void> {
      const { verdict, body } = draw.pick(lab.plains);
      await attempt(lab, draw, verdict, hostileMessage(draw, body));
    },
    async control(lab: WireLab, draw: Draw): Promise<void> {
      const { verdict, body, allowed } = draw.pick(lab.plains);
      await attempt(lab, draw, verdict, bytesOf(body));
      await attempt(lab, draw, "allow", bytesOf(allowed));
    },
  },
};
