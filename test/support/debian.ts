import { globSync } from "node:fs";
import type { Suite } from "mocha";

/** Debian's own Python, which sees Debian's packages; another Python may come first in the path. */
export const PYTHON = "/usr/bin/python3";
/** Debian's compiler of protos. */
export const PROTOC = "/usr/bin/protoc";

const isInstalled = (name: string): boolean => globSync(`/var/lib/dpkg/info/${name}{,:*}.list`).length > 0;

/** Returns those of Debian's packages that are not installed. */
export const missingPackages = (packages: readonly string[]): readonly string[] =>
  packages.filter((name) => !isInstalled(name));

/** Says in the title of tests why they are left out. */
export const leftOut = (title: string, missing: readonly string[]): string =>
  `${title} (left out: install Debian's ${missing.map((name) => `\`${name}\``).join(", ")})`;

/** Describes tests that need packages of Debian; without them they are left out, and the name says so. */
export function describeWithPackages(title: string, packages: readonly string[], define: (this: Suite) => void): void {
  const missing = missingPackages(packages);
  if (missing.length === 0) describe(title, define);
  else describe.skip(leftOut(title, missing), define);
}
