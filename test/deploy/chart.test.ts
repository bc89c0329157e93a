import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";
import { expect } from "chai";
import { Deployment } from "kubernetes-models/apps/v1/Deployment";
import { HorizontalPodAutoscaler } from "kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler";
import { Job } from "kubernetes-models/batch/v1/Job";
import { Ingress } from "kubernetes-models/networking.k8s.io/v1/Ingress";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { Service } from "kubernetes-models/v1/Service";
import { completeValues, type KubernetesObject, objectsOf, readValues, VALUE_FILES, valuesValidator } from "./chart.ts";

const MODELS: Readonly<Record<string, new (object: never) => { validate(): void }>> = {
  Deployment,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  NetworkPolicy,
  PodDisruptionBudget,
  Service,
  ServiceMonitor,
};
/** Kinds and names of the objects of each file of values. */
const OBJECTS: Readonly<Record<(typeof VALUE_FILES)[number], readonly string[]>> = {
  minimal: ["Deployment acp", "Job acp-migrate", "PodDisruptionBudget acp", "Service acp"],
  "own-secrets": ["Deployment acp", "Job acp-migrate", "PodDisruptionBudget acp", "Service acp"],
  full: [
    "Deployment acp",
    "HorizontalPodAutoscaler acp",
    "Ingress acp",
    "Ingress acp-grpc",
    "Ingress acp-mcp",
    "Job acp-migrate",
    "NetworkPolicy acp",
    "PodDisruptionBudget acp",
    "Service acp",
    "ServiceMonitor acp",
  ],
};
const ROOT = join(import.meta.dirname, "../..");
const CONTAINERFILE = readFileSync(join(ROOT, "src/deploy/Containerfile"), "utf8");

interface Container {
  readonly env: readonly {
    name: string;
    value?: string;
    valueFrom?: { secretKeyRef: { name: string; key: string } };
  }[];
  readonly [name: string]: unknown;
}
interface PodSpec {
  readonly containers: readonly [Container];
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: object;
}

const find = (objects: readonly KubernetesObject[], name: string): KubernetesObject => {
  const found = objects.find(({ kind, metadata }) => `${kind} ${metadata.name}` === name);
  if (found === undefined) throw new Error(`there is no ${name}`);
  return found;
};
const podOf = ({ spec }: KubernetesObject): PodSpec =>
  (spec as unknown as { template: { spec: PodSpec } }).template.spec;

describe("the chart", () => {
  const validate = valuesValidator();
  /** Violations of values that are laid over the minimal ones. */
  const violationsOf = (over: object): string[] => {
    const values = completeValues({ image: { repository: "registry.example.com/acp" }, ...over });
    return validate(values)
      ? []
      : (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  };

  for (const name of VALUE_FILES) {
    const values = completeValues(readValues(name));

    it(`takes the values ${name}.`, () => {
      expect(validate(values), JSON.stringify(validate.errors)).to.equal(true);
    });

    it(`renders ${name} to objects that Kubernetes takes.`, () => {
      const objects = objectsOf(values);
      expect(objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort()).to.deep.equal(OBJECTS[name]);
      for (const object of objects) {
        const Model = MODELS[object.kind];
        if (Model === undefined) throw new Error(`there is no model of ${object.kind}`);
        const model = new Model(object as never);
        model.validate();
        // The model sets these two itself.
        const { apiVersion, kind } = model as unknown as KubernetesObject;
        expect({ apiVersion, kind }).to.deep.equal({ apiVersion: object.apiVersion, kind: object.kind });
      }
    });
  }

  it("is of the version of the program, and so is its image.", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(readFileSync(join(ROOT, "src/deploy/chart/Chart.yaml"), "utf8")).to.include(`appVersion: ${version}\n`);
    expect(completeValues({})).to.have.nested.property("image.tag", version);
  });

  it("refuses values that it does not know, wherever they stand.", () => {
    for (const over of [
      { replica: 2 },
      { ingress: { hots: "acp.example.com" } },
      { secrets: { databaseUrl: { name: "a", key: "b", value: "postgres://" } } },
      { autoscaling: { enabled: true, maximum: 3 } },
      { networkPolicy: { enable: true } },
    ])
      expect(violationsOf(over).join(), JSON.stringify(over)).to.include("must NOT have additional properties");
  });

  it("refuses secrets as plain settings, and settings that it makes itself.", () => {
    for (const name of [
      "ACP_ADMIN_KEY",
      "ACP_LLM_KEY",
      "ACP_OIDC_CLIENT_SECRET",
      "ACP_METRICS_TOKEN",
      "ACP_DATABASE_OWNER_URL",
      "ACP_MIGRATE",
      "ACP_DATABASE_POOLER",
      "DATABASE_URL",
    ])
      expect(violationsOf({ settings: { [name]: "x" } }).join(), name).to.include("property name must be valid");
  });

  it("refuses numbers as settings, which Helm would write with an exponent, and an ingress without a host.", () => {
    expect(violationsOf({ settings: { ACP_MAX_BODY_BYTES: 1_048_576 } })).to.include(
      "/settings/ACP_MAX_BODY_BYTES must be string",
    );
    expect(violationsOf({ ingress: { enabled: true } }).join()).to.include("/ingress/host must NOT have fewer than 1");
    expect(violationsOf({ image: { repository: "" } }).join()).to.include(
      "/image/repository must NOT have fewer than 1",
    );
  });

  it("gives the owner's login to the Job alone, which migrates before pods of the version start.", () => {
    const objects = objectsOf(completeValues(readValues("own-secrets")));
    const job = find(objects, "Job acp-migrate");
    expect(job.metadata.annotations).to.include({ "helm.sh/hook": "pre-install,pre-upgrade" });
    const [migrate] = podOf(job).containers;
    expect(migrate.command).to.deep.equal(["agentctl", "migrate", "up"]);
    const owner = {
      name: "ACP_DATABASE_OWNER_URL",
      valueFrom: { secretKeyRef: { name: "postgres-owner-login", key: "url" } },
    };
    expect(migrate.env).to.deep.include(owner);
    const [service] = podOf(find(objects, "Deployment acp")).containers;
    expect(JSON.stringify(service)).not.to.include("postgres-owner-login");
    expect(service.env).to.deep.include({ name: "ACP_MIGRATE", value: "off" });
    expect(service.env).to.deep.include({
      name: "ACP_LLM_KEY",
      valueFrom: { secretKeyRef: { name: "llm", key: "api-key" } },
    });
  });

  it("tells pods and Job of a pooler where there is an address past it.", () => {
    const direct = {
      name: "ACP_DATABASE_DIRECT_URL",
      valueFrom: { secretKeyRef: { name: "postgres-login", key: "direct-url" } },
    };
    for (const [values, count] of [
      ["own-secrets", 1],
      ["minimal", 0],
    ] as const) {
      const objects = objectsOf(completeValues(readValues(values)));
      for (const name of ["Job acp-migrate", "Deployment acp"]) {
        const env = podOf(find(objects, name)).containers[0].env as { name: string; value?: string }[];
        const ofPooler = env.filter((each) => /POOLER|DIRECT/.test(each.name));
        expect(ofPooler, name).to.deep.equal(
          [{ name: "ACP_DATABASE_POOLER", value: "transaction" }, direct].slice(0, 2 * count),
        );
      }
    }
  });

  it("takes a pod out of service before it ends, and gives it the time that it needs.", () => {
    const pod = podOf(find(objectsOf(completeValues(readValues("minimal"))), "Deployment acp"));
    const [{ env, readinessProbe, livenessProbe }] = pod.containers;
    expect(readinessProbe).to.have.nested.property("httpGet.path", "/readyz");
    expect(livenessProbe).to.have.nested.property("httpGet.path", "/healthz");
    const milliseconds = (name: string) => Number(env.find((each) => each.name === name)?.value);
    const { periodSeconds, failureThreshold } = readinessProbe as Record<string, number>;
    expect(milliseconds("ACP_LAME_DUCK_MS")).to.be.above((periodSeconds ?? 0) * (failureThreshold ?? 0) * 1_000);
    const needed = milliseconds("ACP_LAME_DUCK_MS") + milliseconds("ACP_DRAIN_MS") + 10_000;
    expect(pod.terminationGracePeriodSeconds * 1_000).to.be.at.least(needed);
  });

  it("runs as the account of the image, which is not root, on a file system that it cannot change.", () => {
    const pod = podOf(find(objectsOf(completeValues(readValues("minimal"))), "Deployment acp"));
    const [, user, group] = /^USER (\d+):(\d+)$/m.exec(CONTAINERFILE) ?? [];
    expect(pod.securityContext).to.include({ runAsNonRoot: true, runAsUser: Number(user), runAsGroup: Number(group) });
    expect(pod.containers[0].securityContext).to.deep.include({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
  });

  it("keeps an MCP client on one pod by a hash of its key, and leaves other paths free.", () => {
    const objects = objectsOf(completeValues(readValues("full")));
    const hash = "nginx.ingress.kubernetes.io/upstream-hash-by";
    expect(find(objects, "Ingress acp-mcp").metadata.annotations).to.include({
      [hash]: "$http_authorization$http_x_api_key",
    });
    expect(JSON.stringify(find(objects, "Ingress acp-mcp").spec)).to.include('"path":"/mcp/"');
    expect(find(objects, "Ingress acp").metadata.annotations).not.to.have.property(hash);
  });
});
