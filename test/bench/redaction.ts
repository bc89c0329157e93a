/*
 * What scrubbing text costs. Run with `node test/bench/redaction.ts`. Prints how many megabytes of UTF-8 one core scrubs in
 * a second, next to a bare pass over the same text, and what the search for registered values takes to build and hold.
 */

import { createPlaceholders } from "../../src/redaction/text/placeholders.ts";
import { compileScrubber, type Scrubber } from "../../src/redaction/text/scrubber.ts";
import type { RegisteredValue } from "../../src/text/personal-kinds.ts";
import { accountsFrom, createRandom, namesFrom, proseFrom } from "../redaction/text/prose.ts";

const REGISTERED = 100_000;
const LENGTH = 4_000_000;
const RUNS = 5;
const CHUNK = 4;
const DETECTED = [
  "anna.berg@firma-nord.de",
  "j.holt+news@mail.city-works.com",
  "+49 170 5550142",
  "(212) 555-0142",
  "+44 20 7946 0958",
  "4242 4242 4242 4242",
  "DE89 3704 0044 0532 0130 00",
  "536-22-1234",
  "12345678Z",
  "8.8.4.4",
  "born on 12 March 1980",
];

const random = createRandom(1);
const names = namesFrom(random, REGISTERED * 0.8);
const accounts = accountsFrom(random, REGISTERED * 0.2);
const registered: readonly RegisteredValue[] = [
  ...names.map((value) => ({ kind: "person_name", value }) as const),
  ...accounts.map((value) => ({ kind: "account_number", value }) as const),
];
const text = proseFrom(random, LENGTH, [...DETECTED, ...names.slice(0, 20), ...accounts.slice(0, 5)]);
const megabytes = Buffer.byteLength(text) / 1e6;
const chunks = text.match(new RegExp(`[^]{1,${CHUNK}}`, "g")) ?? [];

/** Seconds of the fastest of some runs. */
function seconds(work: () => unknown): number {
  const times = Array.from({ length: RUNS }, () => {
    const started = performance.now();
    work();
    return (performance.now() - started) / 1000;
  });
  return Math.min(...times);
}

function barePass(): number {
  let sum = 0;
  for (let index = 0; index < text.length; index++) sum += text.charCodeAt(index);
  return sum;
}

function pushAll(scrubber: Scrubber): void {
  const stream = scrubber.openStream({ placeholders, restore: true });
  for (const chunk of chunks) stream.push(chunk);
  stream.end();
}

function report(name: string, took: number): void {
  const ratio = (took / bare).toFixed(1).padStart(6);
  console.log(`${name.padEnd(52)} ${(megabytes / took).toFixed(1).padStart(8)} MB/s ${ratio} x bare pass`);
}

const started = performance.now();
const before = process.memoryUsage();
const scrubber = compileScrubber({ registered, allow: [] });
const built = performance.now() - started;
globalThis.gc?.();
const held = process.memoryUsage().heapUsed - before.heapUsed;
const withoutRegistered = compileScrubber({ registered: [], allow: [] });
const placeholders = createPlaceholders({ scrubber });

const bare = seconds(barePass);
console.log(
  `${megabytes.toFixed(1)} MB of English and German, ${scrubber.find(text).length} values; fastest of ${RUNS} runs`,
);
report("a bare pass over the text", bare);
report(
  "find, all detectors",
  seconds(() => withoutRegistered.find(text)),
);
report(
  `find, all detectors and ${REGISTERED} registered values`,
  seconds(() => scrubber.find(text)),
);
report(
  "scrub, the same",
  seconds(() => scrubber.scrub(text)),
);
report(
  `stream, the same, chunks of ${CHUNK} units`,
  seconds(() => pushAll(scrubber)),
);
console.log(`per chunk ${((seconds(() => pushAll(scrubber)) / chunks.length) * 1e6).toFixed(2)} us`);
console.log(`search: built in ${built.toFixed(0)} ms, ${(held / 1e6).toFixed(1)} MB held`);
