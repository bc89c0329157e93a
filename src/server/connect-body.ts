import {
  type EnvelopedMessage,
  pipe,
  readAllBytes,
  transformDecompressEnvelope,
  transformJoinEnvelopes,
  transformSplitEnvelope,
} from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";

const UNARY = /^application\/(proto|json)\b/i;
const ENVELOPED = /^application\/(connect\+(proto|json)|grpc(-web)?(\+(proto|json))?)\b/i;
const JSON_TYPE = /[/+]json\b/i;
const ENVELOPE_ENCODINGS = ["connect-content-encoding", "grpc-encoding"];

/** A message as it arrived, decompressed. */
export interface ArrivedMessage {
  readonly bytes: Uint8Array;
  readonly isBinary: boolean;
  readonly wasCompressed: boolean;
}

/** Checks on messages before the library decodes them. */
export interface MessageChecks {
  /** Maximum bytes of a message, compressed or not. */
  readonly maxBytes: number;
  /** Resolves with the bytes to decode once a message may be decoded. Rejects to refuse the message. */
  readonly check: (message: ArrivedMessage) => Promise<Uint8Array>;
}

/**
 * Returns the body of a Connect, gRPC or gRPC-Web request with its messages decompressed and checked; changes the headers to
 * match. Unknown encodings pass unchanged, and the library refuses them.
 */
export function checkedBody(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  checks: MessageChecks,
): AsyncIterable<Uint8Array> {
  const type = headers.get("content-type") ?? "";
  if (ENVELOPED.test(type)) return checkedEnvelopes(body, headers, checks);
  return UNARY.test(type) ? checkedWhole(body, headers, checks) : body;
}

function checkedEnvelopes(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  { maxBytes, check }: MessageChecks,
): AsyncIterable<Uint8Array> {
  const isBinary = isBinaryType(headers);
  const encodings = ENVELOPE_ENCODINGS.map((name) => headers.get(name) ?? "identity");
  if (!encodings.every(isKnown)) return body;
  const compression = encodings.includes(compressionGzip.name) ? compressionGzip : null;
  const checked = async function* (envelopes: AsyncIterable<EnvelopedMessage>) {
    for await (const envelope of envelopes) {
      const data = await check({ bytes: envelope.data, isBinary, wasCompressed: compression !== null });
      yield { ...envelope, data };
    }
  };
  const decompress = transformDecompressEnvelope(compression, maxBytes);
  return pipe(body, transformSplitEnvelope(maxBytes), decompress, checked, transformJoinEnvelopes());
}

function checkedWhole(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  { maxBytes, check }: MessageChecks,
): AsyncIterable<Uint8Array> {
  const isBinary = isBinaryType(headers);
  const encoding = headers.get("content-encoding") ?? "identity";
  if (!isKnown(encoding)) return body;
  const length = headers.get("content-length");
  headers.delete("content-encoding");
  headers.delete("content-length");
  const read = async function* () {
    const bytes = await readAllBytes(body, maxBytes, length);
    const wasCompressed = encoding !== "identity";
    const message = wasCompressed ? await compressionGzip.decompress(bytes, maxBytes) : bytes;
    yield await check({ bytes: message, isBinary, wasCompressed });
  };
  return read();
}

const isBinaryType = (headers: Headers): boolean => !JSON_TYPE.test(headers.get("content-type") ?? "");
const isKnown = (encoding: string): boolean => encoding === "identity" || encoding === compressionGzip.name;
