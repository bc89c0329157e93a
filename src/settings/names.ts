import { distance } from "fastest-levenshtein";

/** Beginning of the names of our own settings. */
export const PREFIX = "ACP_";

/** Edits between a name and one of ours that count as a slip in any case. */
const MIN_EDITS = 2;

/** Names that settings had before, and the present ones. */
const RENAMED: Readonly<Record<string, string>> = { ACP_REDACTION_KEY: "ACP_ENCRYPTION_KEY" };

/**
 * Variables that Kubernetes sets in every container for a Service whose name begins with `acp`, such as `ACP_SERVICE_HOST`,
 * `ACP_WEB_PORT` and `ACP_PORT_7080_TCP_ADDR`.
 */
const KUBERNETES = /^ACP_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$/;
const KUBERNETES_PORT = /^ACP_(.*_)?PORT$/;
/** Value of a `…_PORT` variable that Kubernetes sets. */
const SERVICE_ADDRESS = /^(tcp|udp|sctp):\/\//i;

/** Judgement on a name that begins like ours and is none. */
export type UnknownName =
  /** A setting that has another name now. */
  | { readonly kind: "renamed"; readonly to: string }
  /** Probably a slip. */
  | { readonly kind: "near"; readonly to: string }
  /** A name of another program. */
  | { readonly kind: "foreign" };

/** True for a value that Kubernetes gives to the `…_PORT` variable of a Service. */
export const isServiceAddress = (value: string): boolean => SERVICE_ADDRESS.test(value);

/** Judges a name that is not in `known`, by its value. */
export function judgeName(name: string, value: string, known: readonly string[]): UnknownName {
  const renamed = RENAMED[name];
  if (renamed !== undefined) return { kind: "renamed", to: renamed };
  const isKubernetes = KUBERNETES.test(name) || (KUBERNETES_PORT.test(name) && isServiceAddress(value));
  const near = isKubernetes ? undefined : nearestName(name, known);
  return near === undefined ? { kind: "foreign" } : { kind: "near", to: near };
}

/** Returns the known name that `name` is a slip of; undefined for none. A third of the letters may differ. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  const maxEdits = Math.max(MIN_EDITS, Math.floor((name.length - PREFIX.length) / 3));
  return known
    .map((each) => ({ each, edits: distance(name, each) }))
    .filter(({ edits }) => edits <= maxEdits)
    .sort((a, b) => a.edits - b.edits)[0]?.each;
}
