/* The chart as Helm gives it to a cluster: complete values, and the objects of its templates. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ajv, type ValidateFunction } from "ajv";
import { parse, parseAllDocuments } from "yaml";
import { renderChart } from "./chart-renderer.ts";

const CHART = join(import.meta.dirname, "../../src/deploy/chart");
const VALUES = join(import.meta.dirname, "../testdata/deploy/values");
/** Files of values for which the chart is rendered. */
export const VALUE_FILES = ["minimal", "full", "own-secrets"] as const;
export const RELEASE = "acp";

/** Object of Kubernetes. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly spec: Record<string, never>;
}

const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Lays values over the defaults, maps member by member, as Helm does. */
function merged(defaults: unknown, over: unknown): unknown {
  if (!isMap(defaults) || !isMap(over)) return over === undefined ? defaults : over;
  const names = new Set([...Object.keys(defaults), ...Object.keys(over)]);
  return Object.fromEntries([...names].map((name) => [name, merged(defaults[name], over[name])]));
}

/** Returns the chart's defaults with `over` on top. */
export const completeValues = (over: object): Record<string, never> =>
  merged(parse(readFileSync(join(CHART, "values.yaml"), "utf8")), over) as Record<string, never>;

/** Reads one of the files of values. */
export const readValues = (name: string): object => parse(readFileSync(join(VALUES, `${name}.yaml`), "utf8")) as object;

/** Compiles the schema by which Helm checks complete values. */
export function valuesValidator(): ValidateFunction {
  const schema = JSON.parse(readFileSync(join(CHART, "values.schema.json"), "utf8")) as object;
  return new Ajv({ allErrors: true, strict: false }).compile(schema);
}

/** Renders the chart with complete values; gives the objects of all templates. */
export function objectsOf(values: object): readonly KubernetesObject[] {
  const folder = join(CHART, "templates");
  const templates = new Map(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), "utf8")]));
  return [...renderChart(templates, values, RELEASE)].flatMap(([name, text]) =>
    parseAllDocuments(text).flatMap((document) => {
      if (document.errors.length > 0) throw new Error(`${name}: ${document.errors[0]?.message}\n${text}`);
      const object = document.toJS() as KubernetesObject | null;
      return object === null ? [] : [object];
    }),
  );
}
