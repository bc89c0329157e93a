const COLUMNS = `mandate_id as "mandateId", version, definition`;

/**
 * Reads some versions of a mandate, oldest first. Parameters: workspace, mandate, versions.
 */
export const readMandateVersions = {
  name: "read-mandate-versions",
  text: `select ${COLUMNS} from mandate_version
    where workspace_id = $1 and mandate_id = $2 and version = any($3::int[]) order by version`,
};

/** Reads the last two versions of a mandate, newest first. Parameters: workspace, mandate. No row: no such mandate. */
export const readLastMandateVersions = {
  name: "read-last-mandate-versions",
  text: `select ${COLUMNS} from mandate_version
    where workspace_id = $1 and mandate_id = $2 order by mandate_version.version desc limit 2`,
};

/** Reads the tests that are stored with a version of a mandate. Parameters: workspace, mandate, version. */
export const readMandateTests = {
  name: "read-mandate-tests",
  text: "select suite from mandate_test where workspace_id = $1 and mandate_id = $2 and version = $3",
};
