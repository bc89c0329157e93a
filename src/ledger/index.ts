export {
  type AgentState,
  type AgentStatus,
  createAgentState,
  MAX_TRUST_TENTHS,
  TRUST_CHANGE_TENTHS,
  trustAfter,
} from "./agent-state.ts";
export { type AuthorityBook, type AuthorityItem, chainOf } from "./authority-book.ts";
export { bodiesFrom } from "./body-packs.ts";
export { canonicalJson, digestOf, type JsonObject, type JsonValue } from "./canonical.ts";
export { type Checkpoint, type CheckpointSigner, createCheckpoints, type SignCheckpoint } from "./checkpoint.ts";
export { createDatabaseClock, type DatabaseClock } from "./clock.ts";
export type {
  AuthorityKind,
  ControlChange,
  RevokedIds,
  SealedAgent,
  SealedAuthority,
  SealedDepartment,
  SealedKey,
  SealedMandate,
  SealedTool,
  SealedWorkspace,
} from "./control-entry.ts";
export { countedPeers } from "./counted-peers.ts";
export { type Decide, escalationIdOf } from "./decided-batch.ts";
export type { DepartmentState } from "./departments.ts";
export type { EscalationState, EscalationStatus } from "./escalation-state.ts";
export { createEventBuffer, type EventBuffer } from "./event-buffer.ts";
export type { ChangeEvent, DecisionEvent, LedgerEvent, LedgerListener, WakeUp } from "./events.ts";
export type { AppendedBatch } from "./follow.ts";
export {
  appendLeaves,
  bytesFromFrontier,
  EMPTY_FRONTIER,
  type Frontier,
  frontierFromBytes,
  HASH_BYTES,
  leafHash,
  nodeHash,
  rootOf,
} from "./merkle.ts";
export type {
  Action,
  DecisionPath,
  DecisionReason,
  Outcome,
  PermissionsResult,
  SealedDecision,
} from "./outcome.ts";
export { CONTENDED_MS, type DecisionPeers, type TakeDecision } from "./peers.ts";
export { type MandateState, mandateSourceFrom, type ToolState, toolSchemaFrom } from "./policies.ts";
export {
  consistencyPath,
  frontierOf,
  inclusionPath,
  type LeafRange,
  nodesOf,
  rangeOf,
  rangeRoot,
  type TreeNode,
} from "./proofs.ts";
export { type DecisionBody, type DecisionReceipt, readReceipts, receiptFrom, type SealedReason } from "./receipts.ts";
export { createRedisParts, type RedisParts } from "./redis.ts";
export { listenOnRedis, REDIS_CHANNEL, type RedisWakeUps } from "./redis-wake-ups.ts";
export { sealChanges } from "./seal-changes.ts";
export {
  type ConsistencyProof,
  createVault,
  type EntryPage,
  type EntryRange,
  type InclusionProof,
  type SealedEntry,
  type Vault,
  type VaultOptions,
} from "./vault.ts";
export { listenForWakeUps, type WakeUpListener, type WakeUps } from "./wake-ups.ts";
export {
  agentStatusFromNumber,
  decisionFromNumber,
  escalationStatusFromNumber,
  numberFromAgentStatus,
  numberFromDecision,
  numberFromEscalationStatus,
} from "./words.ts";
export type { AppendedEnd, ChangeScope, LogSurroundings, WorkspaceLog } from "./workspace-log.ts";
export { createWorkspaceLogs, type WorkspaceLogs } from "./workspace-logs.ts";
export type { StateJournal, WorkspaceState } from "./workspace-state.ts";
