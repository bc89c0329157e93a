import { domainToASCII } from "node:url";
import { walkedNames } from "../../text/path-names.ts";
import { PLATFORM_STEPS, type Run } from "./run.ts";
import { Fault, type Value } from "./values.ts";

/** Characters that readers of a URL take for others, or leave out. */
const AMBIGUOUS = /[\\\s\p{Cc}]/u;
const MAX_URL = 8_192;
const MAX_ADDRESS = 1_024;
const ABSOLUTE_URL = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)/i;
/** Maximum characters of a host with what stands before it; those outside of ASCII take long to convert. */
const MAX_HOST = 300;
const HOST_STEPS = 2;

/**
 * Returns the host of an absolute URL in the form in which hosts compare: lower case, A-labels, without a dot at its end. A URL that
 * programs read differently, such as one with a backslash, is an error.
 */
export function hostOf(run: Run, url: string, site: string): Value {
  run.reads(url.length);
  run.take(PLATFORM_STEPS);
  const text = url.trim();
  const authority = text.length <= MAX_URL ? ABSOLUTE_URL.exec(text)?.[1] : undefined;
  const isUrl = authority !== undefined && isShort(run, authority) && !AMBIGUOUS.test(text);
  const host = isUrl ? URL.parse(text)?.hostname : undefined;
  if (host === undefined || host === "") return new Fault(site, "reads a text that is no URL with a host");
  return comparableHost(host) ?? new Fault(site, "reads a URL whose host is not valid");
}

/** Returns the domain of an e-mail address in the form in which hosts compare. */
export function emailDomainOf(run: Run, address: string, site: string): Value {
  run.reads(address.length);
  run.take(PLATFORM_STEPS);
  const text = address.trim();
  const parts = text.length <= MAX_ADDRESS && !/[\\\s<>(),;:"\p{Cc}]/u.test(text) ? text.split("@") : [];
  const [local, domain] = parts;
  const host =
    parts.length === 2 && local !== "" && domain !== undefined && isShort(run, domain)
      ? comparableHost(domain)
      : undefined;
  return host ?? new Fault(site, "reads a text that is no e-mail address such as `name@example.com`");
}

/** Spends the steps of converting a host, and tests that it is short enough to be one. */
function isShort(run: Run, host: string): boolean {
  if (host.length > MAX_HOST) return false;
  run.take(HOST_STEPS * host.length);
  return true;
}

/** Returns a host in lower case, with A-labels and without a dot at its end; undefined if it is none. */
function comparableHost(host: string): string | undefined {
  if (host.startsWith("[")) return host.toLowerCase();
  const ascii = domainToASCII(host).replace(/\.$/, "");
  return ascii === "" || ascii.split(".").includes("") ? undefined : ascii.toLowerCase();
}

const DRIVE = /^([a-z]):[/\\]/i;

/** A path taken apart. */
interface PathParts {
  /** `/`, `c:`, or empty for a relative path. */
  readonly root: string;
  /** The names after `.` and `..`; leading `..` stay in a relative path. */
  readonly names: readonly string[];
}

/**
 * Tests whether a path is a folder or lies in it, after `.` and `..`. A backslash separates names as `/` does. It reads no file
 * system: a symbolic link may lead elsewhere.
 */
export function pathInside(run: Run, path: string, folder: string, site: string): Value {
  run.reads(path.length + folder.length);
  const [inner, outer] = [partsOf(run, path), partsOf(run, folder)];
  if (inner === undefined || outer === undefined) return new Fault(site, "reads a text that is no path");
  if ((inner.root === "") !== (outer.root === "")) {
    return new Fault(site, "compares a relative path with an absolute one");
  }
  const rest = inner.names.slice(outer.names.length);
  const isWithin = outer.names.every((name, index) => name === inner.names[index]);
  return inner.root === outer.root && isWithin && !rest.includes("..");
}

function partsOf(run: Run, path: string): PathParts | undefined {
  // A home folder, a drive's current folder and a host's share lie where no one here knows.
  if (path === "" || path.includes("\0") || /^(~|[a-z]:(?![/\\])|[/\\]{2})/i.test(path)) return undefined;
  const [, drive] = DRIVE.exec(path) ?? [];
  const root = drive !== undefined ? `${drive.toLowerCase()}:` : /^[/\\]/.test(path) ? "/" : "";
  const written = (drive === undefined ? path : path.slice(2)).split(/[/\\]+/);
  run.take(written.length);
  return { root, names: walkedNames(written, root !== "") };
}
