/** Who belongs where, as the state of the log has it. */
export interface Membership {
  /** How many agents the workspace has, inactive ones included. */
  agentCount(): number;
  /** The agents of one or more departments, each once. */
  membersOfAny(departmentIds: readonly string[]): ReadonlySet<string>;
  /** The departments of an agent, sorted; empty when it is in none. */
  departmentsOf(agentId: string): readonly string[];
}
