import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "chai";
import { describeWithPackages, PROTOC, PYTHON } from "../support/debian.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..");

/** Options that name a file's package in Go and Java, as googleapis and protovalidate publish them. */
const OFFICIAL = [
  [
    "google/api/annotations.proto",
    "google.golang.org/genproto/googleapis/api/annotations;annotations",
    "com.google.api",
  ],
  [
    "google/api/field_behavior.proto",
    "google.golang.org/genproto/googleapis/api/annotations;annotations",
    "com.google.api",
  ],
  ["google/api/http.proto", "google.golang.org/genproto/googleapis/api/annotations;annotations", "com.google.api"],
  [
    "buf/validate/validate.proto",
    "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate",
    "build.buf.validate",
  ],
] as const;

describe("the exported protos", () => {
  let folder: string;
  let protos: string;
  let paths: readonly string[];
  before("exports them", async () => {
    folder = await mkdtemp(join(tmpdir(), "acp-protos-"));
    protos = join(folder, "proto");
    await run(process.execPath, [join(ROOT, "proto", "export.ts"), protos]);
    paths = globSync("**/*.proto", { cwd: protos }).sort();
  });
  after("removes them", () => rm(folder, { recursive: true, force: true }));

  const optionsOf = (path: string) => {
    const text = readFileSync(join(protos, path), "utf8");
    const options = text.matchAll(/^option (\w+) = "?([^"\n;]+(?:;\w+)?)"?;$/gm);
    return Object.fromEntries([...options].map(([, name, value]) => [name, value]));
  };

  it("are all of ours and nothing but what they import.", () => {
    const own = globSync("agentcontrol/**/*.proto", { cwd: join(ROOT, "proto") });
    expect(paths).to.have.members([...own, ...OFFICIAL.map(([path]) => path)]);
  });

  it("name one package in Go and in Java, with a file for each class.", () => {
    for (const path of paths.filter((each) => each.startsWith("agentcontrol/")))
      expect(optionsOf(path), path).to.include({
        go_package: "github.com/agent-control-plane/go/agentcontrol/v1;agentcontrolv1",
        java_package: "com.agentcontrol.v1",
        java_multiple_files: "true",
      });
  });

  it("keep the packages of other authors, so that their types are the same as those of their own libraries.", () => {
    for (const [path, go_package, java_package] of OFFICIAL)
      expect(optionsOf(path), path).to.include({ go_package, java_package, java_multiple_files: "true" });
  });

  describeWithPackages("with protoc", ["protobuf-compiler", "libprotobuf-dev", "python3-protobuf"], () => {
    const compile = async (name: string): Promise<string> => {
      const output = join(folder, name);
      await mkdir(output);
      // Run elsewhere, so that no other folder can answer an import.
      await run(PROTOC, ["-I", protos, `--${name}_out=${output}`, ...paths], { cwd: folder });
      return output;
    };

    it("give Python modules that load.", async () => {
      const output = await compile("python");
      const modules = globSync("agentcontrol/v1/*_pb2.py", { cwd: output }).map((path) =>
        path.slice(0, -3).replaceAll("/", "."),
      );
      expect(modules).to.have.length(globSync("agentcontrol/v1/*.proto", { cwd: protos }).length);
      const code = `import ${modules.join(", ")}\nprint(agentcontrol.v1.enforcement_service_pb2.InterceptRequest.DESCRIPTOR.full_name)`;
      const { stdout } = await run(PYTHON, ["-c", code], { cwd: output });
      expect(stdout.trim()).to.equal("agentcontrol.v1.InterceptRequest");
    });

    it("give Java classes, each in a file of its package.", async () => {
      const output = await compile("java");
      for (const name of ["InterceptRequest", "EscalationServiceProto", "ErrorReason"])
        expect(existsSync(join(output, "com/agentcontrol/v1", `${name}.java`)), name).to.equal(true);
      expect(existsSync(join(output, "build/buf/validate/FieldRules.java"))).to.equal(true);
      expect(existsSync(join(output, "com/google/api/HttpRule.java"))).to.equal(true);
    });
  });
});
