import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { completeValues, type KubernetesObject, objectsOf, readValues, VALUE_FILES } from "./chart.ts";

const ROOT = join(import.meta.dirname, "../..");
const run = promisify(execFile);
const OPERATOR = ["ServiceMonitor"];

/** Writes objects as literals of the models' types, which the compiler refuses with a member that the type lacks. */
function programOf(objects: readonly KubernetesObject[]): string {
  const lines = objects.map(({ apiVersion, kind, ...object }, index) => {
    const source = OPERATOR.includes(kind) ? "@kubernetes-models/prometheus-operator" : "kubernetes-models";
    const type = `import("${source}/${apiVersion}/${kind}").I${kind}`;
    return `export const object${index}: ${type} = ${JSON.stringify({ apiVersion, kind, ...object })};`;
  });
  return lines.join("\n");
}

describe("the members of the chart's objects", () => {
  let dir: string;
  before(async () => {
    // In the checkout, so that the compiler finds the packages.
    dir = await mkdtemp(join(ROOT, "node_modules/.acp-chart-"));
  });
  after(() => rm(dir, { recursive: true, force: true }));

  async function messagesOf(program: string): Promise<string> {
    const file = join(dir, "objects.ts");
    await writeFile(file, program);
    const options = [
      "--noEmit",
      "--strict",
      "--skipLibCheck",
      "--ignoreConfig",
      "--types",
      "",
      "--module",
      "nodenext",
      "--target",
      "es2024",
    ];
    const compiled = run(join(ROOT, "node_modules/.bin/tsc"), [...options, file], { cwd: dir });
    return compiled.then(
      () => "",
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
    );
  }

  it("are members that Kubernetes knows.", async () => {
    const objects = VALUE_FILES.flatMap((name) => objectsOf(completeValues(readValues(name))));
    expect(await messagesOf(programOf(objects))).to.equal("");
  });

  it("are refused when one is misspelt.", async () => {
    const program = programOf(objectsOf(completeValues(readValues("minimal"))));
    expect(program).to.include('"readinessProbe"');
    expect(await messagesOf(program.replace('"readinessProbe"', '"readynessProbe"'))).to.include("readynessProbe");
  });
});
