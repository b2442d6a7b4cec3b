import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it, vi } from 'vitest';
import { print, printError } from '../../src/telemetry/terminal.ts';

const ROOT = resolve(import.meta.dirname, '../..');

it.each([
  ['stdout', print],
  ['stderr', printError],
] as const)('what is written to %s steers no terminal, and keeps its lines', (stream, write) => {
  const written = vi.spyOn(process[stream], 'write').mockReturnValue(true);
  try {
    write('a\u001b[2J\u009b31m\n\u202eb\u2066\u2028\r\u{e0041}c\n');
    expect(written).toHaveBeenCalledExactlyOnceWith(
      'a\\u001b[2J\\u009b31m\n\\u202eb\\u2066\\u2028\\u000d\\udb40\\udc41c\n',
    );
  } finally {
    written.mockRestore();
  }
});

it('nothing else writes to the terminal but what is fixed, and the log, which escapes its lines itself', () => {
  const writers = globSync('src/**/*.{ts,tsx}', { cwd: ROOT }).filter((file) =>
    /(stdout|stderr)\.write\(|console\.(log|error|warn|info)\(/.test(readFileSync(join(ROOT, file), 'utf8')),
  );
  expect(writers.sort()).toEqual([
    'src/main.ts',
    'src/node-version.ts',
    'src/telemetry/service-log.ts',
    'src/telemetry/terminal.ts',
  ]);
  const log = readFileSync(join(ROOT, 'src/telemetry/service-log.ts'), 'utf8');
  expect(log.match(/stdout\.write\(.*/g)).toEqual(['stdout.write(readableLine(line, { hasColors }));']);
});
