import { ListKind } from "../../../../gen/agentcontrol/v1/list_service_pb.js";

/** Kinds of lists, each with its name and what its values are. */
export const LIST_KINDS = [
  { value: ListKind.TEXT, word: "text", title: "text: any texts, such as names or numbers of accounts" },
  { value: ListKind.HOST, word: "host", title: "host: host names, IP addresses, *.example.com" },
  { value: ListKind.EMAIL_DOMAIN, word: "email_domain", title: "email_domain: domains of e-mail addresses" },
];

/** Returns the name of a kind. */
export const kindWord = (kind: ListKind): string => LIST_KINDS.find(({ value }) => value === kind)?.word ?? "";
