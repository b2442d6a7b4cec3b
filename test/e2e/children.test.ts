import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, it } from 'vitest';
import { endLeftChildren, endsWithFile } from './children.ts';

it('a process that nothing has stopped ends with the file that started it', async () => {
  const child = endsWithFile(spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']));
  await once(child, 'spawn');
  endLeftChildren();
  expect(await once(child, 'exit')).toEqual([null, 'SIGKILL']);
});
