import { readFileSync } from "node:fs";
import { join } from "node:path";

const SCREENS = join(import.meta.dirname, "..", "..", "src/dashboard/screens.tsx");

/** Returns the paths of all screens, as `src/dashboard/screens.tsx` lists them: `/agents`, `/agents/:id`. */
export const screenPaths = (): readonly string[] =>
  [...readFileSync(SCREENS, "utf8").matchAll(/\{ path: "([^"]+)"/g)].map(([, path]) => path ?? "");
