import { textAt } from "../verify/json.ts";
import type { Command } from "./command.ts";
import { createChange, createList, createShow } from "./objects.ts";

const GROUPS = "/v1/enforce/approver-groups";
const pathOf = (name = ""): string => `${GROUPS}/${encodeURIComponent(name)}`;
const counted = (member: string) => (row: object) =>
  String((row as Record<string, readonly unknown[]>)[member]?.length);

/** Commands for approver groups. */
export const APPROVER_COMMANDS: readonly Command[] = [
  createList({
    name: "approvers list",
    summary: "list the groups of people who may approve",
    path: GROUPS,
    rows: "approver_groups",
    columns: [
      { head: "NAME", of: "name" },
      { head: "MEMBERS", of: counted("members") },
      { head: "OIDC GROUPS", of: counted("oidc_groups") },
      { head: "DEPUTIES", of: counted("deputies") },
      { head: "MANDATES", of: "uses" },
      { head: "CHANGED", of: (row) => textAt(row, "updated_at") },
    ],
  }),
  createShow({
    name: "approvers show",
    summary: "show the people of a group, and the mandates that name it",
    argument: "group",
    path: pathOf,
  }),
  createChange({
    name: "approvers put",
    summary: "make a group have exactly the people of a file, and create it if there is none",
    details: [
      "",
      "The file has `members`, `oidc_groups` (each with `issuer` and `group`), `deputies` and `description`. A person is",
      "`oidc:{issuer}|{subject}`, or a label that keys have as owner.",
    ],
    method: "PUT",
    arguments: "<group>",
    path: pathOf,
    takesFile: true,
    done: "put approver group",
  }),
  createChange({
    name: "approvers delete",
    summary: "delete a group that no mandate in force names",
    method: "DELETE",
    arguments: "<group>",
    path: pathOf,
    question: (name) => `delete approver group ${name}?`,
    done: "deleted approver group",
  }),
];
