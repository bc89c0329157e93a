import { certificateVerify } from "./certificate-verify.ts";
import type { Command } from "./command.ts";
import { redactScan } from "./redact-scan.ts";
import { vaultExplain } from "./vault-explain.ts";
import { vaultExport } from "./vault-export.ts";
import { vaultProve } from "./vault-prove.ts";
import { vaultVerify } from "./vault-verify.ts";

/** Every command of `agentctl`, in the order of its help. */
export const COMMANDS: readonly Command[] = [
  vaultVerify,
  vaultExport,
  vaultProve,
  vaultExplain,
  certificateVerify,
  redactScan,
];
