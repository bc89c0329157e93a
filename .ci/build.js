// Writes what production runs to `dist`: the compiled program with the dashboard, the guides that it serves, the files of a
// deployment, the exported protos, and the client package. Packs it for npm into `.generated`.
import { execSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";

const OUT = "dist";
/** Folder of the package, which must not hold itself. */
const PACKED = ".generated";

const run = (command) => execSync(command, { stdio: "inherit" });

rmSync(OUT, { recursive: true, force: true });
run("tsc -p src/tsconfig.build.json");
run(`node src/dashboard/build.ts ${join(OUT, ".generated/dashboard")}`);
cpSync("gen", join(OUT, "gen"), { recursive: true });
for (const page of ["README.md", "CHANGELOG.md", ...globSync("src/**/*.md")]) cpSync(page, join(OUT, page));
// `.data` holds the keys of a compose file that runs here.
cpSync("src/deploy", join(OUT, "src/deploy"), { recursive: true, filter: (path) => basename(path) !== ".data" });
cpSync("src/policy/packs", join(OUT, "src/policy/packs"), { recursive: true });
cpSync("src/cli/hook/hook.cjs", join(OUT, "src/cli/hook/hook.cjs"));
run("node proto/export.ts");
run("npm run --silent build:client");
mkdirSync(PACKED, { recursive: true });
run(`npm pack --silent --pack-destination ${PACKED}`);
