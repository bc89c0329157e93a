import { readFile } from "node:fs/promises";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

/** A guide: a Markdown file beside what it describes. */
export interface Guide {
  /** Last part of its address: `/docs/guides/<slug>`. */
  readonly slug: string;
  /** Title in the navigation. */
  readonly title: string;
  /** Path from the root of the project. */
  readonly path: string;
}

/** Group of guides in the navigation. */
export interface GuideGroup {
  readonly name: string;
  readonly guides: readonly Guide[];
}

const guide = (slug: string, title: string, path: string): Guide => ({ slug, title, path });

/** Every guide, in the order of the navigation. */
export const GUIDE_GROUPS: readonly GuideGroup[] = [
  {
    name: "Start",
    guides: [
      guide("start", "Start", "README.md"),
      guide("deciding", "What decides", "src/decision/GUIDE.md"),
      guide("one-action", "The path of one action", "src/GUIDE.md"),
    ],
  },
  {
    name: "Policy",
    guides: [
      guide("mandates", "Mandates", "src/policy/GUIDE.md"),
      guide("operators", "Operators", "src/policy/operators/GUIDE.md"),
      guide("expressions", "Expressions", "src/policy/when/GUIDE.md"),
      guide("limits", "Limits and sequences", "src/state/counters/GUIDE.md"),
      guide("money", "Money", "src/state/counters/MONEY.md"),
      guide("dry-runs", "Dry runs", "src/dryrun/README.md"),
      guide("packs", "Packs on recorded attacks", "src/policy/packs/RESULTS.md"),
    ],
  },
  {
    name: "Agents and people",
    guides: [
      guide("authority", "Authority", "src/authority/GUIDE.md"),
      guide("observations", "What sessions observe", "src/observation/GUIDE.md"),
      guide("escalations", "Escalations", "src/escalation/GUIDE.md"),
      guide("notifications", "Notifications", "src/notification/GUIDE.md"),
      guide("revocation", "Revocation", "src/revocation/GUIDE.md"),
      guide("dashboard", "Dashboard", "src/dashboard/GUIDE.md"),
    ],
  },
  {
    name: "Connecting",
    guides: [
      guide("client", "Client library", "src/client/GUIDE.md"),
      guide("frameworks", "Frameworks", "src/client/FRAMEWORKS.md"),
      guide("python", "Client library for Python", "src/client/python/README.md"),
      guide("python-frameworks", "Frameworks in Python", "src/client/python/FRAMEWORKS.md"),
      guide("rest", "REST clients", "src/server/rest/GUIDE.md"),
      guide("mcp", "MCP gateway", "src/gateway/README.md"),
      guide("coding-agents", "Coding agents", "src/gateway/CODING-AGENTS.md"),
      guide("redaction", "Redaction", "src/redaction/GUIDE.md"),
      guide("webhooks", "Webhooks", "src/webhook/GUIDE.md"),
    ],
  },
  {
    name: "Evidence",
    guides: [
      guide("log", "Receipts and the log", "src/log/GUIDE.md"),
      guide("verification", "agentctl and verification", "src/cli/GUIDE.md"),
      guide("threats", "Threats", "src/server/THREATS.md"),
      guide("mapping", "Mapping to standards", "src/verify/MAPPING.md"),
    ],
  },
  {
    name: "Operating",
    guides: [
      guide("interfaces", "Interfaces and operations", "src/server/GUIDE.md"),
      guide("keys", "Keys and roles", "src/registry/GUIDE.md"),
      guide("errors", "Errors", "src/server/ERRORS.md"),
      guide("configuration", "Configuration", "src/server/CONFIGURATION.md"),
      guide("deployment", "Deployment", "src/server/DEPLOYMENT.md"),
      guide("deploying", "Deploying step by step", "src/deploy/README.md"),
      guide("rotating-keys", "Rotating keys", "src/server/KEYS.md"),
      guide("sizing", "Sizing", "src/store/SIZING.md"),
      guide("metrics", "Metrics", "src/server/METRICS.md"),
      guide("upgrades", "Upgrades", "src/store/GUIDE.md"),
      guide("changelog", "Changelog", "CHANGELOG.md"),
    ],
  },
];

/** Every guide. */
export const GUIDES: readonly Guide[] = GUIDE_GROUPS.flatMap(({ guides }) => guides);

/** Top of the project, or of the built package. */
const ROOT = fileURLToPath(new URL("../../..", import.meta.url));

/** Reads the Markdown of a guide. */
export const readGuide = ({ path }: Guide): Promise<string> => readFile(join(ROOT, path), "utf8");

/** Returns the address of a guide's link; undefined for a file that is not served. */
export function addressOf(link: string, from: Guide): string | undefined {
  if (/^https?:/.test(link) || link.startsWith("#")) return link;
  const [file = "", anchor] = link.split("#", 2);
  const path = posix.join(posix.dirname(from.path), file);
  const found = GUIDES.find((each) => each.path === path);
  if (found === undefined) return undefined;
  return `/docs/guides/${found.slug}${anchor === undefined ? "" : `#${anchor}`}`;
}
