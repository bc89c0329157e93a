/*
 * The longest trials, by name: `npm run fire -- failover`. Each prints its figures and ends with 1 when one of its promises does
 * not hold. `test/fire/README.md` says what each promises.
 */
import { fireApprovals } from "./fire-approvals.ts";
import { fireFailover } from "./fire-failover.ts";
import { fireFaults } from "./fire-faults.ts";
import { fireFuzz } from "./fire-fuzz.ts";
import { fireObservations } from "./fire-observations.ts";
import { firePayments } from "./fire-payments.ts";
import { fireSoak } from "./fire-soak.ts";
import { fireStreams } from "./fire-streams.ts";
import { fireKills, fireWorkspaces } from "./fire-workspaces.ts";

const FIRES: Readonly<Record<string, (args: readonly string[]) => Promise<boolean>>> = {
  approvals: fireApprovals,
  failover: fireFailover,
  faults: fireFaults,
  fuzz: fireFuzz,
  kills: fireKills,
  observations: fireObservations,
  payments: firePayments,
  soak: fireSoak,
  streams: fireStreams,
  workspaces: fireWorkspaces,
};

const [name = "", ...args] = process.argv.slice(2);
const fire = FIRES[name];
if (fire === undefined) {
  console.error(`usage: npm run fire -- ${Object.keys(FIRES).join(" | ")}`);
  process.exitCode = 1;
} else if (!(await fire(args))) {
  process.exitCode = 1;
}
