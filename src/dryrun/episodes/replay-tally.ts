import { createHash } from "node:crypto";
import type { Decision } from "../../policy/types.ts";
import { ENGINE_VERSION } from "../backtest/report.ts";
import type { DecidedCall } from "./episode.ts";

/** Numbers of a replay. */
export interface ReplaySummary {
  readonly episodes: number;
  readonly calls: number;
  readonly decisions: Readonly<Record<Decision, number>>;
  /** SHA-256 over decisions, paths and reasons, lower-case hexadecimal. */
  readonly digest: string;
  readonly policyDigest: string;
  readonly engineVersion: string;
}

/** Counts the decisions of a replay, and hashes them without ids and times. */
export class ReplayTally {
  readonly #hash = createHash("sha256");
  readonly #decisions: Record<Decision, number> = { allow: 0, block: 0, escalate: 0 };
  #episodes = 0;

  /** Begins the next episode, to which the calls belong that are added from now on. */
  begin(): void {
    this.#hash.update(`${JSON.stringify(["episode", this.#episodes])}\n`);
    this.#episodes += 1;
  }

  add({ index, ran, outcome: { decision, path, policyName, reasons } }: DecidedCall): void {
    this.#decisions[decision] += 1;
    const told = reasons.map((reason) => [
      reason.code,
      reason.mandateName ?? null,
      reason.rule ?? null,
      reason.argument ?? null,
      reason.decision ?? null,
    ]);
    this.#hash.update(`${JSON.stringify([index, decision, ran, path, policyName ?? null, told])}\n`);
  }

  /** Returns the numbers so far. Nothing may be added afterwards. */
  summary(policyDigest: string): ReplaySummary {
    const { allow, block, escalate } = this.#decisions;
    return {
      episodes: this.#episodes,
      calls: allow + block + escalate,
      decisions: { ...this.#decisions },
      digest: this.#hash.digest("hex"),
      policyDigest,
      engineVersion: ENGINE_VERSION,
    };
  }
}
