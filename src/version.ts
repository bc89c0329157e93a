import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Name of the package whose version is the program's. */
const PACKAGE = "agent-control-plane";

/** Returns the version in the package's own `package.json`, which lies above the sources and above the compiled files. */
export function versionOf(start: string = import.meta.dirname): string {
  const path = join(start, "package.json");
  if (existsSync(path)) {
    const { name, version } = JSON.parse(readFileSync(path, "utf8")) as {
      readonly name?: string;
      readonly version?: string;
    };
    if (name === PACKAGE && version !== undefined) return version;
  }
  if (dirname(start) === start) throw new Error(`no package.json of ${PACKAGE} above ${import.meta.dirname}`);
  return versionOf(dirname(start));
}
