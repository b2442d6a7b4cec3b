import { refuseOldNode } from './node-version.ts';
import { prepareNode } from './prepare-node.ts';

const USAGE = `Usage: node dist/main.js

Starts the service. It has no options: its settings come from the environment, .env and sluice.config.ts.
For options, settings and the other commands: npx sluice serve --help, npx sluice --help
`;

refuseOldNode();
const [argument] = process.argv.slice(2);
if (argument === '--help' || argument === '-h') {
  process.stdout.write(USAGE);
} else if (argument === undefined) {
  prepareNode();
  const { serve } = await import('#service');
  await serve();
} else {
  process.stderr.write(`Unknown argument: ${argument}\n\n${USAGE}`);
  process.exitCode = 2;
}
