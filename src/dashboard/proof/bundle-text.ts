import { decisionBundleText, logBundleLine as lineOf } from "../../verify/bundle.ts";
import type { AnsweredProof } from "../../verify/inclusion.ts";
import type { PublicKey } from "../../verify/public-key.ts";
import { type AnsweredEntry, entryOf } from "./check-decision.ts";

/** Writes a decision with its proof as a bundle that `agentctl vault verify` takes. */
export const decisionBundle = (body: string, { leafIndex, auditPath }: AnsweredProof, note: string, key: PublicKey) =>
  decisionBundleText({ body, leafIndex: Number(leafIndex), auditPath }, note, [key]);

/** Writes the line of an entry in a log bundle. */
export const logBundleLine = (entry: AnsweredEntry): string => lineOf(entryOf(entry));
