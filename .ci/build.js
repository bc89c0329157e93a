// Writes what production runs to `dist`: the compiled program with the dashboard, the guides that it serves, the exported
// protos, and the client package.
import { execSync } from "node:child_process";
import { cpSync, globSync, rmSync } from "node:fs";
import { join } from "node:path";

const OUT = "dist";

const run = (command) => execSync(command, { stdio: "inherit" });

rmSync(OUT, { recursive: true, force: true });
run("tsc -p src/tsconfig.build.json");
run(`node src/dashboard/build.ts ${join(OUT, ".generated/dashboard")}`);
cpSync("gen", join(OUT, "gen"), { recursive: true });
for (const page of ["README.md", "CHANGELOG.md", ...globSync("src/**/*.md")]) cpSync(page, join(OUT, page));
cpSync("src/cli/hook/hook.cjs", join(OUT, "src/cli/hook/hook.cjs"));
run("node proto/export.ts");
run("npm run --silent build:client");
