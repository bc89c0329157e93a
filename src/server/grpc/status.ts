import type { OutgoingHttpHeaders } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import type { Code } from "@connectrpc/connect";
import { StatusSchema } from "../../../gen/google/rpc/status_pb.js";
import { ControlPlaneError, codeFromReason, controlPlaneErrorFrom } from "../../errors.ts";
import { detailsOf } from "../errors.ts";

/**
 * Maximum encoded bytes of an error in gRPC trailers: many clients refuse headers of more than 8 KiB, and some then close the
 * connection with all its calls.
 */
const MAX_TRAILERS = 6_000;
/** Maximum bytes of the message, which the trailers carry twice: percent-encoded, and in base64 in the details. */
const MAX_MESSAGE = 1_000;
/** Maximum bytes of one value of the metadata. */
const MAX_VALUE = 200;

/** Returns the trailers of a status. */
export function statusTrailers(code: Code, message: string): OutgoingHttpHeaders {
  return { "grpc-status": String(code), "grpc-message": encodeURI(message.toWellFormed()) };
}

/**
 * Returns the trailers of an error, with `google.rpc.Status` in `grpc-status-details-bin`. An unknown fault becomes INTERNAL. `code`
 * replaces the code of the error's reason.
 */
export function trailersFrom(error: unknown, code?: Code): OutgoingHttpHeaders {
  const fault = fitTrailers(controlPlaneErrorFrom(error));
  const sent = code ?? codeFromReason(fault.reason);
  const details = Buffer.from(statusBytes(fault, sent)).toString("base64");
  return { ...statusTrailers(sent, fault.message), "grpc-status-details-bin": details };
}

/**
 * Shortens an error so that it fits into gRPC trailers: with as many violations as fit, and with long texts cut. The message then
 * says how many violations are left out, and the metadata has their number as `omitted_violations`.
 */
export function fitTrailers(error: ControlPlaneError): ControlPlaneError {
  if (trailerBytes(error) <= MAX_TRAILERS) return error;
  const metadata = Object.fromEntries(
    Object.entries(error.metadata).map(([name, value]) => [name, cutTo(MAX_VALUE, value)]),
  );
  const { violations } = error;
  const short = (count: number) => {
    const omitted = violations.length - count;
    const more = omitted === 0 ? "" : `; ${omitted} more violations are left out, which REST and Connect show`;
    const counted = omitted === 0 ? metadata : { ...metadata, omitted_violations: String(omitted) };
    const message = cutTo(MAX_MESSAGE, error.message) + more;
    return new ControlPlaneError(error.reason, message, counted, {
      cause: error.cause,
      violations: violations.slice(0, count),
    });
  };
  let [fitting, tooMany] = [0, violations.length + 1];
  while (tooMany - fitting > 1) {
    const middle = (fitting + tooMany) >> 1;
    if (trailerBytes(short(middle)) <= MAX_TRAILERS) fitting = middle;
    else tooMany = middle;
  }
  return short(fitting);
}

function trailerBytes(error: ControlPlaneError): number {
  return encodedLength(error.message) + Math.ceil(statusBytes(error).length / 3) * 4;
}

function statusBytes(error: ControlPlaneError, code = codeFromReason(error.reason)): Uint8Array {
  const details = detailsOf(error).map(({ desc, value }) => anyPack(desc, create(desc, value)));
  return toBinary(StatusSchema, create(StatusSchema, { code, message: error.message.toWellFormed(), details }));
}

const encodedLength = (text: string): number => encodeURIComponent(text.toWellFormed()).length;

/** Cuts a text between characters, so that its percent-encoded form has at most `maxBytes` bytes. */
function cutTo(maxBytes: number, text: string): string {
  // Encoding never makes a character shorter.
  const start = text.slice(0, maxBytes).toWellFormed();
  if (start.length === text.length && encodedLength(start) <= maxBytes) return text;
  let bytes = 0;
  let cut = "";
  for (const character of start) {
    bytes += encodedLength(character);
    if (bytes > maxBytes) break;
    cut += character;
  }
  return `${cut}…`;
}
