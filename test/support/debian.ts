import { globSync } from "node:fs";
import type { Suite } from "mocha";

/** Debian's own Python, which sees Debian's packages; another Python may come first in the path. */
export const PYTHON = "/usr/bin/python3";
/** Debian's compiler of protos. */
export const PROTOC = "/usr/bin/protoc";

const isInstalled = (name: string): boolean => globSync(`/var/lib/dpkg/info/${name}{,:*}.list`).length > 0;

/** Describes tests that need packages of Debian; without them they are left out, and the name says so. */
export function describeWithPackages(title: string, packages: readonly string[], define: (this: Suite) => void): void {
  const missing = packages.filter((name) => !isInstalled(name)).map((name) => `\`${name}\``);
  if (missing.length === 0) describe(title, define);
  else describe.skip(`${title} (left out: install Debian's ${missing.join(", ")})`, define);
}
