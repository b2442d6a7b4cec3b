import { spawnSync } from 'node:child_process';
import { isInstalled, markInstalled } from './lock.ts';

// Installs the packages of this folder, unless they match the lock file. A failure does not stop the next command:
// tests that need a package fail, and the others run.
if (!isInstalled()) {
  process.stdout.write('Installing the packages that only tests and the site need into test/oracles/node_modules\n');
  // No package needs to run an install script. Windows starts npm only through a shell.
  const { status } = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: import.meta.dirname,
    stdio: ['ignore', 'ignore', 'inherit'],
    shell: process.platform === 'win32',
  });
  if (status === 0) markInstalled();
  else process.stderr.write('npm could not install test/oracles: the tests that need its packages will fail\n');
}
