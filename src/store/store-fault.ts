import { ControlPlaneError, ErrorReason } from "../errors.ts";

const UNIQUE_VIOLATION = "23505";
/**
 * SQLSTATE classes of a server that cannot answer now: connection, resources, a lock that is not released in time, a
 * transaction that idled too long, operator intervention, system. Not 08P01: a message that breaks the protocol is a fault of
 * ours that a retry does not cure.
 */
const UNAVAILABLE_CLASS = /^(08(?!P01)|53|55P03|57|58|25P03)/;
const CONNECTION_LOST =
  /ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|ETIMEDOUT|Connection terminated|is not queryable|timeout exceeded when trying to connect|Query read timeout/;

const codeOf = (error: unknown): string => String((error as { code?: unknown } | null)?.code ?? "");

/** True when a statement failed because a row of its key exists. */
export const isUniqueViolation = (error: unknown): boolean => codeOf(error) === UNIQUE_VIOLATION;

/** Awaits a statement; a database that does not answer is STORE_UNAVAILABLE. */
export async function stored<T>(work: PromiseLike<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw storeFault(error);
  }
}

/** Maps a fault of a statement for callers: STORE_UNAVAILABLE when the database did not answer, else unchanged. */
export function storeFault(error: unknown): unknown {
  if (error instanceof ControlPlaneError) return error;
  const code = codeOf(error);
  const text = `${code} ${error instanceof Error ? error.message : ""}`;
  if (!UNAVAILABLE_CLASS.test(code) && !CONNECTION_LOST.test(text)) return error;
  const message = "the database did not answer; retry with the same request_id";
  return new ControlPlaneError(ErrorReason.STORE_UNAVAILABLE, message, {}, { cause: error });
}
