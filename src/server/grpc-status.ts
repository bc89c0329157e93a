import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Metadata, type StatusObject } from "@grpc/grpc-js";
import { StatusSchema } from "../../gen/google/rpc/status_pb.js";
import { ControlPlaneError, codeFromReason, controlPlaneErrorFrom } from "../errors.ts";
import { detailsOf } from "./errors.ts";

const STATUS_DETAILS = "grpc-status-details-bin";

/**
 * Maximum bytes of an error in the trailers of gRPC, as encoded there: many clients refuse headers of more than 8 KiB, and some
 * close the connection with every call on it.
 */
const MAX_TRAILERS = 6_000;
/** Maximum bytes of the message, which the trailers carry twice: percent-encoded, and in base64 in the details. */
const MAX_MESSAGE = 1_000;
/** Maximum bytes of one value of the metadata. */
const MAX_VALUE = 200;

/** Returns the error for grpc-js, with `google.rpc.Status` in `grpc-status-details-bin`. An unknown fault becomes INTERNAL. */
export function grpcStatusFrom(error: unknown): StatusObject & { metadata: Metadata } {
  const fault = fitTrailers(controlPlaneErrorFrom(error));
  const metadata = new Metadata();
  metadata.set(STATUS_DETAILS, Buffer.from(statusBytes(fault)));
  // grpc-js writes the message through encodeURI, which throws on half a surrogate pair.
  return { code: codeFromReason(fault.reason) as number, details: fault.message.toWellFormed(), metadata };
}

/** True for a gRPC status that already carries our details. */
export function hasStatusDetails(metadata: Metadata | null | undefined): boolean {
  return (metadata?.get(STATUS_DETAILS).length ?? 0) > 0;
}

/**
 * Shortens an error to what the trailers of gRPC can carry: as many violations as fit, long texts cut. The message then says how
 * many violations are missing, and the metadata has their number as `omitted_violations`.
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

function statusBytes(error: ControlPlaneError): Uint8Array {
  const details = detailsOf(error).map(({ desc, value }) => anyPack(desc, create(desc, value)));
  const code = codeFromReason(error.reason);
  return toBinary(StatusSchema, create(StatusSchema, { code, message: error.message.toWellFormed(), details }));
}

const encodedLength = (text: string): number => encodeURIComponent(text.toWellFormed()).length;

/** Cuts a text to a number of bytes as percent-encoded, between characters. */
function cutTo(maxBytes: number, text: string): string {
  // No character is shorter encoded than as it is.
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
