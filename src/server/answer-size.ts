/** Bytes that count for a number, a boolean or an absent value. */
const VALUE_BYTES = 4;

/** Estimates the bytes of a message once it is encoded, from the lengths of its texts and the number of its values. */
export function sizeOfMessage(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return VALUE_BYTES;
  if (value instanceof Uint8Array) return value.length;
  if (Array.isArray(value)) return value.reduce((size: number, item) => size + sizeOfMessage(item), 0);
  let size = 0;
  // The library's own members begin with `$`.
  for (const [name, member] of Object.entries(value))
    if (!name.startsWith("$")) size += name.length + sizeOfMessage(member);
  return size;
}
