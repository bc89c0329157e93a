import { expect } from "chai";
import { detectableFrom } from "../../src/text/detectable.ts";
import { openRedactionWorkspace, PERSONAL, type RedactionWorkspace } from "./harness.ts";
import { chatEvents, completion, sends, streams } from "./upstream.ts";

/** Values whose plain form is hidden wherever it stands, with what would give them away: their letters and digits. */
const VALUES: readonly { readonly kind: string; readonly plain: string; readonly groups?: readonly string[] }[] = [
  { kind: "card", plain: "4111111111111111", groups: ["4111", "1111", "1111", "1111"] },
  { kind: "card", plain: "378282246310005", groups: ["3782", "822463", "10005"] },
  { kind: "iban", plain: "DE89370400440532013000", groups: ["DE89", "3704", "0044", "0532", "0130", "00"] },
  { kind: "email", plain: "jane.roe@corp-mail.org" },
  { kind: "phone", plain: "+493090182000" },
  { kind: "name", plain: PERSONAL.name },
];

type Random = () => number;

/** Mulberry32: the same numbers for the same seed. */
function randomFrom(seed: number): Random {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const drawn = <T>(random: Random, items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;

const INVISIBLE = [
  "\u200b",
  "\u200c",
  "\u200d",
  "\u2060",
  "\u00ad",
  "\ufeff",
  "\u034f",
  "\ufe0f",
  "\u061c",
  "\u{e0061}",
];
const ZEROS = [0x0660, 0x06f0, 0x0966, 0x09e6, 0x0e50, 0xff10, 0x1d7ce, 0x1d7d8, 0x1d7f6];
const GAPS = [" ", "-", ".", "/", "\t", "\n", "  ", "\u00a0", "\u2009", "\u2013", "\u2212", "_", " - "];

interface Disguise {
  readonly name: string;
  readonly fits: (kind: string) => boolean;
  readonly apply: (plain: string, random: Random, groups: readonly string[] | undefined) => string;
}

const always = (): boolean => true;
const mapped = (text: string, change: (character: string) => string): string => [...text].map(change).join("");
const fullWidth = (character: string): string =>
  /[!-~]/.test(character) ? String.fromCharCode(character.charCodeAt(0) + 0xfee0) : character;

/** Ways to write a value that a person or a model still reads as the value. */
const DISGUISES: readonly Disguise[] = [
  { name: "plain", fits: always, apply: (plain) => plain },
  {
    name: "invisible",
    fits: always,
    apply: (plain, random) => mapped(plain, (each) => (random() < 0.4 ? each + drawn(random, INVISIBLE) : each)),
  },
  { name: "full-width", fits: always, apply: (plain) => mapped(plain, fullWidth) },
  {
    name: "some full-width",
    fits: always,
    apply: (plain, random) => mapped(plain, (each) => (random() < 0.5 ? fullWidth(each) : each)),
  },
  {
    name: "digits",
    fits: (kind) => kind === "card" || kind === "iban" || kind === "phone",
    apply(plain, random) {
      const zero = drawn(random, ZEROS);
      return mapped(plain, (each) => (/\d/.test(each) ? String.fromCodePoint(zero + Number(each)) : each));
    },
  },
  {
    name: "gaps",
    fits: (kind) => kind === "card" || kind === "iban",
    apply: (plain, random, groups = [plain]) => groups.join(drawn(random, GAPS)),
  },
  { name: "glued", fits: (kind) => kind === "card" || kind === "iban", apply: (plain) => `no${plain}` },
  { name: "case", fits: (kind) => kind === "name" || kind === "email", apply: (plain) => plain.toUpperCase() },
];

/** Where a value stands in a request. */
const PLACES: readonly { readonly name: string; readonly put: (text: string) => object }[] = [
  { name: "content", put: (text) => ({ role: "user", content: `see ${text} there` }) },
  { name: "part", put: (text) => ({ role: "user", content: [{ type: "text", text }] }) },
  {
    name: "arguments",
    put: (text) => ({
      role: "assistant",
      content: null,
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "f", arguments: JSON.stringify({ of: text }) } },
      ],
    }),
  },
  {
    name: "tool result",
    put: (text) => ({ role: "tool", tool_call_id: "call_1", content: JSON.stringify([text, { a: text }]) }),
  },
  { name: "id", put: (text) => ({ role: "tool", tool_call_id: text, content: "" }) },
  { name: "status", put: (text) => ({ role: "user", content: "x", status: text }) },
  { name: "signature", put: (text) => ({ role: "user", content: "x", signature: `${text}/${"abcDEF".repeat(7)}` }) },
  { name: "member name", put: (text) => ({ role: "user", content: "x", extra: { [text]: 1 } }) },
  { name: "metadata", put: (text) => ({ role: "user", content: "x", note: { deep: [{ er: text }] } }) },
];

/** The letters and digits of a text as someone reads them who looks for the value. */
const essence = (text: string): string =>
  detectableFrom(text)
    .text.toLowerCase()
    .replace(/[^a-z0-9@]/g, "");

interface Case {
  readonly label: string;
  readonly plain: string;
  readonly text: string;
}

function drawCase(random: Random): Case {
  const { kind, plain, groups } = drawn(random, VALUES);
  const disguise = drawn(
    random,
    DISGUISES.filter(({ fits }) => fits(kind)),
  );
  return { label: `${disguise.name} ${kind}`, plain, text: disguise.apply(plain, random, groups) };
}

/** Fails when what arrived gives one of the values away, and shows where. */
function assertHidden(cases: readonly Case[], arrived: string, where: string): void {
  const labels = new Map(cases.map(({ plain, label }) => [essence(plain), label]));
  for (const line of arrived.split(/(?<=\})|;/)) {
    const read = essence(line);
    for (const [plain, label] of labels)
      expect(read.includes(plain), `${label} ${where}: ${JSON.stringify(line)}`).to.equal(false);
  }
}

const SEPARATOR = " ; ";
const AT_ONCE = 40;
const PROSE = "Größe 12,5 m², «déjà vu» – page 3/4 … 😀 田中さん\tok\u00a0!";

/**
 * Sends disguised values through the proxy, up and down, and checks that none arrives. Returns how many cases of each disguise
 * and place there were.
 */
export async function runDisguises(count: number, seed: number): Promise<ReadonlyMap<string, number>> {
  const random = randomFrom(seed);
  const counts = new Map<string, number>();
  const note = (name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);
  const workspace = await openRedactionWorkspace({ llmKey: "sk-upstream-key", maxBodyBytes: 4_194_304 });
  try {
    await workspace.redaction.values.add(workspace.caller, [{ kind: "person_name", value: PERSONAL.name }]);
    for (let done = 0; done < count; done += 3 * AT_ONCE) await round(workspace, random, note);
    return counts;
  } finally {
    await workspace.close();
  }
}

async function round(workspace: RedactionWorkspace, random: Random, note: (name: string) => void): Promise<void> {
  const { upstream } = workspace;
  const cases = Array.from({ length: 3 * AT_ONCE }, () => drawCase(random));
  const [up, whole, cut] = [0, 1, 2].map((part) => cases.slice(part * AT_ONCE, (part + 1) * AT_ONCE)) as [
    Case[],
    Case[],
    Case[],
  ];
  for (const { label } of cases) note(label);

  upstream.asked.length = 0;
  upstream.answer = sends(completion({ content: PROSE + SEPARATOR + whole.map(({ text }) => text).join(SEPARATOR) }));
  const messages = up.map(({ text }) => {
    const place = drawn(random, PLACES);
    note(place.name);
    return place.put(text);
  });
  const asked = [
    { role: "user", content: PROSE },
    ...messages,
    { role: "user", content: [{ type: "text", text: "4111" }], n: 4111111111111111 },
  ];
  const answer = await workspace.post("/chat/completions", { model: "test-1", messages: asked });
  const sent = upstream.asked[0]?.body ?? "";
  expect(sent, "prose on the way up").to.include(JSON.stringify(PROSE).slice(1, -1));
  assertHidden([...up, { label: "a number", plain: "4111111111111111", text: "4111111111111111" }], sent, "up");
  const said = JSON.parse(await answer.text()) as { choices: { message: { content: string } }[] };
  const content = said.choices[0]?.message.content ?? "";
  expect(content, "prose on the way down").to.include(PROSE);
  assertHidden(whole, content, "down");

  const text = PROSE + SEPARATOR + cut.map((each) => each.text).join(SEPARATOR);
  upstream.answer = streams(chatEvents(cutAtRandom(text, random)));
  const streamed = await workspace.post("/chat/completions", { model: "test-1", messages: [], stream: true });
  const deltas = (await streamed.text()).matchAll(/"content":("(?:[^"\\]|\\.)*")/g);
  const joined = [...deltas].map(([, each = '""']) => JSON.parse(each) as string).join("");
  expect(joined, "prose on the way down, streamed").to.include(PROSE);
  assertHidden(cut, joined, "down, streamed");
}

/** Cuts a text into pieces of one to twelve characters; pairs of surrogates stay whole, as JSON in UTF-8 keeps them. */
function cutAtRandom(text: string, random: Random): string[] {
  const characters = [...text];
  const pieces: string[] = [];
  for (let from = 0; from < characters.length; ) {
    const to = from + 1 + Math.floor(random() * 12);
    pieces.push(characters.slice(from, to).join(""));
    from = to;
  }
  return pieces;
}

/** Every disguise and place, for checking that each was drawn. */
export const DRAWN: readonly string[] = [
  ...PLACES.map(({ name }) => name),
  ...DISGUISES.flatMap(({ name, fits }) =>
    [...new Set(VALUES.map(({ kind }) => kind))].filter(fits).map((kind) => `${name} ${kind}`),
  ),
];
