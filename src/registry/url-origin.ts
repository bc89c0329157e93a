/**
 * Tests whether two URLs of HTTP have the same origin: scheme, host and port. Letter case, a default port, credentials and the
 * two spellings of an international name make no difference. A host with a final dot is another host, since it may be resolved
 * and served differently.
 */
export function isSameOrigin(one: string, other: string): boolean {
  return new URL(one).origin === new URL(other).origin;
}
