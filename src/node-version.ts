/** The Node-API version that better-sqlite3 13 is built for; Node 22.14 and 23.6 were the first to have it (nodejs.org/api/n-api.html). */
const NODE_API_NEEDED = 10;

/**
 * Ends the process with one line and code 1 where this Node is too old to load the SQLite addon. An older Node does not
 * refuse the addon, it crashes inside it, so this has to run before anything that leads to it is imported.
 */
export function refuseOldNode(versions: NodeJS.ProcessVersions = process.versions): void {
  if (Number(versions.napi ?? 0) >= NODE_API_NEEDED) return;
  process.stderr.write(
    `Sluice needs Node 22.14 or newer; this is Node ${versions.node}. ` +
      'Install a newer Node; in a checkout, `npm start` and `npx sluice` use the one that `npm ci` installs.\n',
  );
  process.exit(1);
}
