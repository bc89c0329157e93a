import type { CommandReport } from "../command.ts";
import { tableLines } from "../table.ts";
import type { JudgedEpisode } from "./judged.ts";
import { hasPassed, isAttack, type Measurement, measure, measureGroups, type StoppedBy, stoppedBy } from "./measure.ts";
import type { Share } from "./wilson.ts";

/** Maximum rows of rules, and of episodes, that are printed. */
const MAX_ROWS = 50;

/** Result of a replay over all its requests. */
export interface ReplayResult {
  readonly episodes: readonly JudgedEpisode[];
  /** SHA-256 over the digests of the requests, lower-case hexadecimal. */
  readonly digest: string;
  readonly policyDigest: string;
  /** Number of results and prompts that were cut because they or their episodes are too large. */
  readonly cut: number;
}

/** Tells what the rules would have asked, blocked and missed. */
export function reportOf(result: ReplayResult, columns: number | undefined): CommandReport {
  const { episodes, digest, policyDigest, cut } = result;
  const total = measure("all", episodes);
  const groups = measureGroups(episodes);
  const rules = stoppedBy(episodes);
  const missed = episodes.filter((each) => isAttack(each) && hasPassed(each));
  const unlabelled = episodes
    .filter((each) => isAttack(each) && (each.attack?.effective ?? 0) === 0)
    .map(({ id }) => id);
  const sum = (of: (episode: JudgedEpisode) => number): number => episodes.reduce((all, each) => all + of(each), 0);
  const [calls, asked, blocked] = [
    sum(({ calls: each }) => each),
    sum((each) => each.asked),
    sum((each) => each.blocked),
  ];
  const lines = [
    `${episodes.length} episodes, ${calls} calls: ${calls - asked - blocked} allowed, ${asked} asked about, ${blocked} blocked`,
    ...(cut === 0 ? [] : [`${cut} results and prompts were cut, because they or their episodes are too large`]),
    "",
    ...measurementLines([total, ...groups], columns),
    ...(rules.length === 0 ? [] : ["", ...ruleLines(rules, columns)]),
    ...(rules.length > MAX_ROWS ? [`and ${rules.length - MAX_ROWS} more; --json lists all`] : []),
    ...listLines("attacks that would have passed", missed.map(missedText)),
    ...listLines("successful attacks without a call that a label names", unlabelled),
    "",
    `digest ${digest}`,
  ];
  const json = {
    episodes: episodes.length,
    calls,
    asked,
    blocked,
    cut,
    total,
    groups,
    rules,
    missed: missed.map(({ id, attack }) => ({ id, steps: attack?.made ?? [] })),
    unlabelled,
    digest,
    policy_digest: policyDigest,
  };
  return { lines, json, isRefused: missed.length > 0 };
}

const missedText = ({ id, attack }: JudgedEpisode): string => `${id}, step ${attack?.made.join(", ")}`;

function measurementLines(measurements: readonly Measurement[], columns: number | undefined): readonly string[] {
  const rows = measurements.map(
    ({ name, attacks, passed, passedShare, honest, questionsMean, questionsP90, quiet, quietShare }) => ({
      name,
      passed: `${passed} of ${attacks}`,
      passedShare: shareText(passedShare),
      honest: `${honest}`,
      mean: questionsMean === undefined ? "" : questionsMean.toFixed(2),
      p90: questionsP90 === undefined ? "" : `${questionsP90}`,
      quiet: `${quiet}`,
      quietShare: shareText(quietShare),
    }),
  );
  return tableLines(
    [
      { head: "episodes", of: "name", max: 40 },
      { head: "attacks passed", of: "passed" },
      { head: "share (95 %)", of: "passedShare" },
      { head: "honest", of: "honest" },
      { head: "questions", of: "mean" },
      { head: "p90", of: "p90" },
      { head: "undisturbed", of: "quiet" },
      { head: "share (95 %)", of: "quietShare" },
    ],
    rows,
    columns,
  );
}

function shareText(share: Share | undefined): string {
  if (share === undefined) return "";
  const percent = (value: number): string => (value * 100).toFixed(1);
  return `${percent(share.share)} % (${percent(share.from)} to ${percent(share.to)})`;
}

const ruleLines = (rules: readonly StoppedBy[], columns: number | undefined): readonly string[] =>
  tableLines(
    [
      { head: "mandate", of: "mandate" },
      { head: "rule", of: "rule" },
      { head: "tool", of: "tool" },
      { head: "asked", of: "asked" },
      { head: "blocked", of: "blocked" },
      { head: "episodes", of: "episodes" },
    ],
    rules.slice(0, MAX_ROWS).map(({ mandate = "", ...row }) => ({ mandate, ...row })),
    columns,
  );

function listLines(title: string, items: readonly string[]): readonly string[] {
  if (items.length === 0) return [];
  const more = items.length - MAX_ROWS;
  return [
    "",
    `${items.length} ${title}:`,
    ...items.slice(0, MAX_ROWS).map((item) => `  ${item}`),
    ...(more > 0 ? [`  and ${more} more; --json lists all`] : []),
  ];
}
