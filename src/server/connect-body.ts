import {
  type EnvelopedMessage,
  pipe,
  readAllBytes,
  transformDecompressEnvelope,
  transformJoinEnvelopes,
  transformSplitEnvelope,
} from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";

const UNARY = /^application\/proto$/i;
const ENVELOPED = /^application\/(connect\+proto|grpc(-web)?(\+proto)?)$/i;
const ENVELOPE_ENCODINGS = ["connect-content-encoding", "grpc-encoding"];

/** What messages in binary form go through before the library decodes them. */
export interface BinaryMessages {
  /** Maximum bytes of a message, compressed or not. */
  readonly maxBytes: number;
  /** Throws for a message that must not be decoded. */
  readonly check: (message: Uint8Array) => void;
}

/**
 * Returns the body of a Connect, gRPC or gRPC-Web request with its binary messages decompressed and checked; changes the headers
 * to match. JSON and unknown encodings pass as they are: the library reads the one and refuses the other.
 */
export function checkedBody(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  binary: BinaryMessages,
): AsyncIterable<Uint8Array> {
  const type = headers.get("content-type") ?? "";
  if (ENVELOPED.test(type)) return checkedEnvelopes(body, headers, binary);
  return UNARY.test(type) ? checkedWhole(body, headers, binary) : body;
}

function checkedEnvelopes(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  { maxBytes, check }: BinaryMessages,
): AsyncIterable<Uint8Array> {
  const encodings = ENVELOPE_ENCODINGS.map((name) => headers.get(name) ?? "identity");
  if (!encodings.every(isKnown)) return body;
  const compression = encodings.includes(compressionGzip.name) ? compressionGzip : null;
  const checked = async function* (envelopes: AsyncIterable<EnvelopedMessage>) {
    for await (const envelope of envelopes) {
      check(envelope.data);
      yield envelope;
    }
  };
  const decompress = transformDecompressEnvelope(compression, maxBytes);
  return pipe(body, transformSplitEnvelope(maxBytes), decompress, checked, transformJoinEnvelopes());
}

function checkedWhole(
  body: AsyncIterable<Uint8Array>,
  headers: Headers,
  { maxBytes, check }: BinaryMessages,
): AsyncIterable<Uint8Array> {
  const encoding = headers.get("content-encoding") ?? "identity";
  if (!isKnown(encoding)) return body;
  const length = headers.get("content-length");
  headers.delete("content-encoding");
  headers.delete("content-length");
  const read = async function* () {
    const bytes = await readAllBytes(body, maxBytes, length);
    const message = encoding === "identity" ? bytes : await compressionGzip.decompress(bytes, maxBytes);
    check(message);
    yield message;
  };
  return read();
}

const isKnown = (encoding: string): boolean => encoding === "identity" || encoding === compressionGzip.name;
