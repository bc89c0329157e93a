/** Value that JSON.stringify writes in its RFC 8785 form. Objects are excluded: JSON.stringify does not sort their members. */
type Simple = string | number | boolean | readonly string[];

/** Writes a simple value in its RFC 8785 form; undefined stays undefined. */
export const json = JSON.stringify as (value: Simple | undefined) => string | undefined;

/**
 * Creates a function that writes an object in its RFC 8785 form (JSON Canonicalization Scheme). `members` holds, by name, the
 * functions that write the members' values in that form; a member is left out where its function returns undefined. Members are
 * sorted here, once, so that callers may list them by meaning.
 */
export function objectWriter<T>(
  members: Readonly<Record<string, (source: T) => string | undefined>>,
): (source: T) => string {
  // RFC 8785 §3.2.3 sorts names as arrays of UTF-16 code units, as `sort` does.
  const sorted = Object.keys(members)
    .sort()
    .map((name) => ({ prefix: `${JSON.stringify(name)}:`, write: members[name] as (source: T) => string | undefined }));
  return (source) => {
    let text = "";
    for (const { prefix, write } of sorted) {
      const value = write(source);
      if (value !== undefined) text += text === "" ? prefix + value : `,${prefix}${value}`;
    }
    return `{${text}}`;
  };
}

/** Writes a list of objects; undefined for an empty one. */
export function listText<T>(items: readonly T[], write: (item: T) => string): string | undefined {
  return items.length === 0 ? undefined : `[${items.map(write).join(",")}]`;
}
