/** Node-API of better-sqlite3 13; Node 22.14 and 23.6 were the first with it (nodejs.org/api/n-api.html). */
const NODE_API_NEEDED = 10;

/**
 * Ends the process with one line and code 1 if this Node is too old to load the SQLite addon. An older Node does not
 * refuse the addon but crashes inside it, so this must run before any import that leads to it.
 */
export function refuseOldNode(versions: NodeJS.ProcessVersions = process.versions): void {
  if (Number(versions.napi ?? 0) >= NODE_API_NEEDED) return;
  process.stderr.write(
    `Sluice needs Node 22.14 or newer; this is Node ${versions.node}. ` +
      'Install a newer Node; in a checkout, `npm start` and `npx sluice` use the one that `npm ci` installs.\n',
  );
  process.exit(1);
}
