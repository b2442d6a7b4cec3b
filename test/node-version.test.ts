import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { expect, it } from 'vitest';

// Pretends to be an older Node, before Sluice is loaded. The addon would crash there, so none may be loaded.
const AS_OLDER_NODE = `data:text/javascript,${encodeURIComponent(`
  Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2', napi: '9' } });
  process.dlopen = () => { throw new Error('an addon was loaded'); };
`)}`;

it.each(['main.js', 'cli.js'])('%s says in one line which Node it needs, before it loads an addon', async (entry) => {
  const file = resolve(import.meta.dirname, '../dist', entry);
  const { code, output } = await new Promise<{ code: unknown; output: string }>((done) => {
    execFile(process.execPath, ['--import', AS_OLDER_NODE, file, 'check'], (error, stdout, stderr) =>
      done({ code: error?.code, output: stdout + stderr }),
    );
  });

  expect(code).toBe(1);
  expect(output).toMatch(/^Sluice needs Node 22\.14 or newer; this is Node 20\.20\.2\. .*\n$/);
});
