/** Returns copies of a value, each with one thing in it changed, and where. */
export function* flips(value: unknown, path = ""): Generator<readonly [string, unknown]> {
  if (typeof value === "string") yield [path, flippedText(value)];
  else if (typeof value === "bigint") yield [path, value + 1n];
  else if (typeof value === "number") yield [path, value + 1];
  else if (typeof value === "boolean") yield [path, !value];
  else if (value instanceof Uint8Array) yield [path, flippedBytes(value)];
  else if (Array.isArray(value)) {
    if (value.length > 0) yield [`${path}.length`, value.slice(1)];
    for (const [at, each] of value.entries())
      for (const [where, flipped] of flips(each, `${path}[${at}]`)) yield [where, value.with(at, flipped)];
  } else if (typeof value === "object" && value !== null) {
    for (const [name, each] of Object.entries(value))
      for (const [where, flipped] of flips(each, `${path}.${name}`)) yield [where, { ...value, [name]: flipped }];
  }
}

function flippedText(text: string): string {
  const at = Math.floor(text.length / 2);
  return `${text.slice(0, at)}${text[at] === "A" ? "B" : "A"}${text.slice(at + 1)}`;
}

function flippedBytes(bytes: Uint8Array): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[copy.length - 1] = (copy.at(-1) ?? 0) ^ 1;
  return copy;
}
