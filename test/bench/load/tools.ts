import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Source, ToolSource } from "./plan.ts";

/** The tools that make load, where the machine has them. */
export interface Tools {
  readonly h2load: boolean;
  readonly wrk: boolean;
}

/** Whether `PATH` leads to a program. */
function isOnPath(name: string): boolean {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return folder !== "" && statSync(path).isFile();
    } catch {
      return false;
    }
  });
}

/** The tools on the `PATH`; none where the load process is to make all load itself. */
export function findTools(ownLoad: boolean): Tools {
  return { h2load: !ownLoad && isOnPath("h2load"), wrk: !ownLoad && isOnPath("wrk") };
}

/** The same load by a tool, if there is one for it. `databaseUrl` is what the target keeps its log in, if it keeps one. */
export function withTools(source: Source, { h2load, wrk }: Tools, databaseUrl?: string): Source | ToolSource {
  if (source.kind === "unary" && h2load) {
    const { target, callers, isShared = false } = source;
    const load = { kind: "h2load", target, callers, isShared } as const;
    return databaseUrl === undefined ? load : { ...load, databaseUrl };
  }
  return source.kind === "rest" && wrk ? { ...source, kind: "wrk" } : source;
}

/** Says what makes the load of which wire. */
export function toolsText({ h2load, wrk }: Tools): string {
  const own = "the benchmark's own process";
  const unary = h2load ? "h2load, which repeats one action that is allowed" : own;
  const rest = wrk ? "wrk" : own;
  return `load: gRPC unary by ${unary}; REST by ${rest}; streams by ${own}`;
}
