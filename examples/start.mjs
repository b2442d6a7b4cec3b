// Starts an example from its folder: what its flows call, and Sluice with its manifests. `npm run example NAME`
import { spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const [name = ''] = process.argv.slice(2);
const folder = join(import.meta.dirname, name);
if (!existsSync(join(folder, 'services.mjs'))) {
  const names = readdirSync(import.meta.dirname, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  process.stderr.write(`npm run example NAME, where NAME is one of: ${names.map((entry) => entry.name).join(', ')}\n`);
  process.exit(2);
}

const run = (...args) => spawn(process.execPath, args, { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] });
const services = run('--env-file=.env', 'services.mjs');
const sluice = run(join(import.meta.dirname, '../dist/main.js'));

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => sluice.kill(signal));
sluice.on('exit', (code) => {
  services.kill();
  process.exitCode = code ?? 1;
});
