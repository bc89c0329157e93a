import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { JsonObject } from "@bufbuild/protobuf";
import type { WireName } from "../support/wires.ts";
import { type AuthorityKindRow, type ForEveryKind, forEveryKind } from "./every-kind.ts";

/** One call: the method, its request in plain JSON, and who calls. Texts may hold `{{name.path}}` of earlier answers. */
export interface Step {
  /** `AgentService.RegisterAgent`. */
  readonly call: string;
  readonly request?: JsonObject;
  /** Keeps the answer under this name. */
  readonly as?: string;
  /** The key to call with; null sends none. Absent: the admin key of the workspace. */
  readonly key?: string | null;
  /** Whose admin key: `own` (default), `default`, or any other name for a further new workspace. */
  readonly in?: string;
}

/** What a call must fail with. */
export interface WantedError {
  readonly code: string;
  readonly reason?: string;
  /** Fields that must be among the violations. */
  readonly violations?: readonly { readonly field: string; readonly reason?: string }[];
}

/** One behaviour that every wire shows alike. */
export interface UnaryCase extends Step {
  readonly description: string;
  /** Steps before the call; a text names one of `steps.json`, kept under its own name. */
  readonly given?: readonly (string | Step)[];
  /** The answer in part, after ids, times and secrets were replaced. */
  readonly want?: JsonObject;
  readonly error?: WantedError;
  /** The wires on which the request can be expressed. Absent: all. */
  readonly only?: readonly WireName[];
  /** Sent as it is: JSON text on JSON wires, hexadecimal bytes on the others. */
  readonly raw?: { readonly json?: string; readonly hex?: string };
  readonly isExpired?: boolean;
  /** Wires find the fault at different depths: only code and reason have to agree. */
  readonly isLoose?: boolean;
}

/** One server stream: what comes at once, what is done then, and what comes of it. */
export interface StreamCase extends Step {
  readonly description: string;
  readonly given?: readonly (string | Step)[];
  /** The messages, in part. The steps of `during` are made once `during_after` of them have come. */
  readonly want?: readonly JsonObject[];
  readonly during?: readonly (string | Step)[];
  readonly during_after?: number;
  /** Whether the stream must end by itself after the messages; else it is left. */
  readonly ends?: boolean;
  readonly error?: WantedError;
}

/** One raw HTTP request and its exact response. */
export interface RestCase {
  readonly description: string;
  readonly given?: readonly (string | Step)[];
  /** `POST /v1/enforce/agents`. Paths below `/v1` are asked for below `/api/v1` as well. */
  readonly request: string;
  readonly headers?: Readonly<Record<string, string | null>>;
  /** JSON, or a text that is sent as it is. */
  readonly body?: JsonObject | string;
  readonly want: {
    readonly status: number;
    readonly headers?: Readonly<Record<string, string>>;
    /** The whole body, after ids, times and secrets were replaced. */
    readonly body?: JsonObject;
    /** The body in part, where the whole says no more. */
    readonly part?: JsonObject;
    /** The body to the byte. */
    readonly text?: string;
  };
}

const DATA = join(import.meta.dirname, "..", "testdata", "conformance");

function read<T>(name: string): T {
  return JSON.parse(readFileSync(join(DATA, `${name}.json`), "utf8")) as T;
}

/** The files of unary cases: one for each service, expressions of rules, and the bad inputs. */
export const UNARY_FILES = [
  "agents",
  "departments",
  "tools",
  "mandates",
  "expressions",
  "lists",
  "proposals",
  "approver-groups",
  "enforcement",
  "dry-runs",
  "escalations",
  "admin",
  "authority",
  "revocations",
  "webhooks",
  "notifications",
  "mcp-servers",
  "redaction",
  "vault",
  "access",
  "bad-input",
  "unstorable-text",
] as const;

/** The steps that cases name. */
export const namedSteps = (): Record<string, Step> => read("steps");

const kinds = (): AuthorityKindRow[] => read("authority-kinds");
const readCases = <T>(name: string): T[] => forEveryKind<T & ForEveryKind>(read(name), kinds(), namedSteps());

/** The unary cases of a file. */
export const unaryCases = (name: (typeof UNARY_FILES)[number]): UnaryCase[] => readCases(name);
/** The cases of server streams. */
export const streamCases = (): StreamCase[] => read("streams");
/** The raw HTTP requests. */
export const restCases = (): RestCase[] => readCases("rest");
/** Where each reason is provoked that no request can provoke: file below `test/`, by reason. */
export const reasonsElsewhere = (): Record<string, string> => read("reasons-elsewhere");
