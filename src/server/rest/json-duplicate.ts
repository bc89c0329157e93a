import { fieldPathText, type PathStep } from "./field-path.ts";

const BACKSLASH = 0x5c;

/** The index of the quote that ends the string opened at `open`; the text's length when nothing ends it. */
export function endOfJsonString(text: string, open: number): number {
  for (let end = text.indexOf('"', open + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslash = end - 1;
    while (text.charCodeAt(backslash) === BACKSLASH) backslash--;
    if ((end - backslash) % 2 === 1) return end;
  }
  return text.length;
}

interface Frame {
  /** Keys seen so far; `undefined` inside an array. */
  readonly keys: Set<string> | undefined;
  step: PathStep;
  expectsKey: boolean;
}

/**
 * The path of the first key that an object of a valid JSON text repeats; `""` when none does.
 * Escapes in keys are resolved first, so `"a"` and `"\u0061"` are the same key.
 */
export function findDuplicateKey(text: string): string {
  const frames: Frame[] = [];
  for (let index = 0; index < text.length; index++) {
    const char = text[index];
    const frame = frames.at(-1);
    if (char === "{") frames.push({ keys: new Set(), step: "", expectsKey: true });
    else if (char === "[") frames.push({ keys: undefined, step: 0, expectsKey: false });
    else if (char === "}" || char === "]") frames.pop();
    else if (char === "," && frame !== undefined) nextItem(frame);
    else if (char === '"') {
      const end = endOfJsonString(text, index);
      if (frame?.expectsKey && !addKey(frame, text.slice(index, end + 1))) return pathOf(frames);
      index = end;
    }
  }
  return "";
}

function nextItem(frame: Frame): void {
  if (typeof frame.step === "number") frame.step += 1;
  else frame.expectsKey = true;
}

function addKey(frame: Frame, quoted: string): boolean {
  const key = String(JSON.parse(quoted));
  frame.step = key;
  frame.expectsKey = false;
  if (frame.keys?.has(key)) return false;
  frame.keys?.add(key);
  return true;
}

function pathOf(frames: readonly Frame[]): string {
  return fieldPathText(frames.map((frame) => frame.step));
}
