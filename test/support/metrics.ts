/* Reads the page of metrics of a service. */

/** A sample of a page of metrics. */
export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$/i;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/gi;

function sampleFrom(line: string): Sample[] {
  const [, name, labels = "", value = ""] = LINE.exec(line) ?? [];
  if (name === undefined) return [];
  const pairs = [...labels.matchAll(LABEL)].map(([, label = "", text = ""]) => [label, text] as const);
  return [{ name, labels: Object.fromEntries(pairs), value: Number(value.replace("Inf", "Infinity")) }];
}

/** Fetches the page of a service; its address is `http://host:port`. */
export async function metricsText(http: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const response = await fetch(`${http}/metrics`, { headers: { connection: "close", ...headers } });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`/metrics answered ${response.status}: ${text}`);
  return text;
}

/** Reads the samples of a page. */
export const samplesFrom = (page: string): readonly Sample[] => page.split("\n").flatMap(sampleFrom);

/** Fetches the samples of a service. */
export async function metricsOf(http: string, headers?: Readonly<Record<string, string>>): Promise<readonly Sample[]> {
  return samplesFrom(await metricsText(http, headers));
}

/** Adds up the samples of a name that have the given labels. */
export function sumOf(samples: readonly Sample[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  const wanted = Object.entries(labels);
  return samples
    .filter((sample) => sample.name === name && wanted.every(([label, value]) => sample.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
