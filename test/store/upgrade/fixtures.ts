import { join } from "node:path";
import { ROOT } from "../../architecture/source-files.ts";

/** Databases of earlier versions, a folder for each. */
export const FIXTURES = join(ROOT, "test/testdata/upgrade");

/** What is known of a fixture besides its database. */
export interface Kept {
  /** Checkpoint of the log of the workspace `default`. */
  readonly checkpoint: string;
  readonly decisions: readonly { readonly decision_id: string; readonly decision: string }[];
  /** Key of `ANN` with the role operator. */
  readonly annKey: string;
}

/** A person of every fixture, by issuer and subject. */
export const ANN = { issuer: "https://login.example.com", subject: "ann" };

/** That person as owner of a key. */
export const ANN_NAME = `oidc:${ANN.issuer}|${ANN.subject}`;

/** Secrets with which every fixture was made; they guard nothing. */
export const SECRETS = {
  ACP_ADMIN_KEY: "an-admin-key-of-the-fixture",
  ACP_ENCRYPTION_KEY: "an-encryption-key-of-the-fixture-0123456789",
  ACP_SIGNING_KEY: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgdjbUaDERnO4fD4sN
vWuV9DOkduTrLddc6MInAU987I6hRANCAARsQtMD3DCK8uGS4Li9VxKYrbhDXKVO
Ir23+YIjesK9dPNkOmhKNHcHSnL6O8YvDYTQYQBNQUDIxqGyV/GU+fjB
-----END PRIVATE KEY-----
`,
} as const;
